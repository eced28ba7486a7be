"""Lazy attributes."""

from tgp.utils.tracing import lazy_attribute


class Sample:
    calls = 0

    @lazy_attribute
    def value(self):
        """A value."""
        self.calls += 1
        return [self.calls]


def test_computed_once_and_assignable():
    sample = Sample()
    assert sample.value is sample.value and sample.calls == 1
    sample.value = "given"
    assert sample.value == "given"
    other = Sample()
    other.value = 3
    assert other.value == 3 and other.calls == 0
    assert Sample.value.__doc__ == "A value."
