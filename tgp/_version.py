"""The one place that states the version; read by the build without importing the package."""

__version__ = "2.0.0rc1"
