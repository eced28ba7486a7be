"""Names of the members of large dataset collections."""

from __future__ import annotations

__all__ = ["MOLECULE_NET", "MOLECULE_NET_FILES", "OGB_G", "PYGSP", "TU"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TOX21 = _words("AhR AR AR-LBD ARE aromatase ATAD5 ER ER-LBD HSE MMP p53 PPAR-gamma")

TU = (
    *_words("""
AIDS alchemy_full aspirin benzene BZR BZR_MD COIL-DEL COIL-RAG COLLAB COLORS-3 COX2 COX2_MD Cuneiform
dblp_ct1 dblp_ct2 DBLP_v1 DD deezer_ego_nets DHFR DHFR_MD ENZYMES ER_MD ethanol facebook_ct1
facebook_ct2 Fingerprint FIRSTMM_DB FRANKENSTEIN github_stargazers highschool_ct1 highschool_ct2
IMDB-BINARY IMDB-MULTI infectious_ct1 infectious_ct2 KKI Letter-high Letter-low Letter-med malonaldehyde
MCF-7 MCF-7H mit_ct1 mit_ct2 MOLT-4 MOLT-4H MSRC_9 MSRC_21 MSRC_21C MUTAG Mutagenicity naphthalene NCI1
NCI109 NCI-H23 NCI-H23H OHSU OVCAR-8 OVCAR-8H P388 P388H PC-3 PC-3H Peking_1 PROTEINS PROTEINS_full
PTC_FM PTC_FR PTC_MM PTC_MR QM9 REDDIT-BINARY REDDIT-MULTI-5K REDDIT-MULTI-12K reddit_threads
salicylic_acid SF-295 SF-295H SN12C SN12CH SW-620 SW-620H SYNTHETIC SYNTHETICnew Synthie toluene
TRIANGLES tumblr_ct1 tumblr_ct2 twitch_egos TWITTER-Real-Graph-Partial UACC257 UACC257H uracil Yeast
YeastH ZINC_full ZINC_test ZINC_train ZINC_val
"""),
    *(f"Tox21_{assay}_{part}" for assay in _TOX21 for part in ("training", "testing", "evaluation")),
)

MOLECULE_NET_FILES = {
    "ESOL": "delaney-processed",
    "FreeSolv": "SAMPL",
    "Lipo": "Lipophilicity",
    "PCBA": "pcba",
    "MUV": "muv",
    "HIV": "HIV",
    "BACE": "bace",
    "BBBP": "BBBP",
    "Tox21": "tox21",
    "ToxCast": "toxcast_data",
    "SIDER": "sider",
    "ClinTox": "clintox",
}
MOLECULE_NET = tuple(MOLECULE_NET_FILES)

_OGB_MOL = _words("hiv pcba bace bbbp clintox muv sider tox21 toxcast esol freesolv lipo chembl")
OGB_G = (*(f"ogbg-mol{name}" for name in _OGB_MOL), "ogbg-ppa", "ogbg-code2")

PYGSP = _words("""
Airfoil BarabasiAlbert Comet Community DavidSensorNet ErdosRenyi Grid2d Logo Minnesota Path
RandomRegular Ring Sensor StochasticBlockModel SwissRoll Torus Bunny Cube Sphere TwoMoons
""")
