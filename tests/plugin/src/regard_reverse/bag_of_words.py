"""Bag of words: the mean of the token vectors, and a linear head. Order-blind, and a strong baseline for `classify`."""

from __future__ import annotations

from pydantic import Field

from regard.spec import Architecture, ViewSpec
from regard.utils.config import Config


class BagOfWordsConfig(Config):
    """The shape of a bag of words."""

    vocab_size: int = Field(ge=1, description="Tokens in the vocabulary.")
    d_model: int = Field(64, ge=1, description="Size of the token vectors.")


ARCHITECTURE = Architecture(
    name="bag-of-words",
    summary="The mean of the token vectors, and a linear head.",
    config=BagOfWordsConfig,
    model="regard_reverse.bag_of_words_model:build",
    capabilities=frozenset({"sequence_classification", "bag_of_words"}),
    heads=frozenset({"sequence_classification"}),
    presets={"tiny": {"d_model": 32}, "small": {"d_model": 128}},
    test_settings={"d_model": 7},
)

VIEW = ViewSpec(
    name="contributions",
    summary="How much each token of a text speaks for each label.",
    build="regard_reverse.contributions:contributions",
    needs=frozenset({"bag_of_words"}),
)
