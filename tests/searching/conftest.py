from tests.cheap_studies import *  # noqa: F403 - fixtures, for every test of this folder
