"""torch.utils._pytree: nodes, structures, maps over several trees, structures as text."""

from __future__ import annotations

import enum
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import rushlight as torch
from rushlight.utils import _pytree as pytree

Point = namedtuple("Point", ["x", "y"])


class Colour(enum.Enum):
    RED = 1


class Box:
    def __init__(self, content, label=None):
        self.content, self.label = content, label


@pytest.fixture
def boxes():
    """Lets Box be a node for one test."""
    yield lambda **options: pytree.register_pytree_node(
        Box, lambda b: ([b.content], b.label), lambda c, label: Box(*c, label), **options
    )
    pytree._deregister_pytree_node(Box)


def pairs(*trees):
    return pytree.tree_map(lambda *leaves: leaves, *trees)


def test_dicts_are_matched_by_their_keys():
    want = {"a": (1, 4), "b": (2, 3)}
    assert pairs({"a": 1, "b": 2}, {"b": 3, "a": 4}) == want
    assert pairs({"a": 1, "b": 2}, OrderedDict(b=3, a=4)) == want
    assert pairs(defaultdict(int, a=1), {"a": 2}) == {"a": (1, 2)}


def test_the_rests_may_have_nodes_where_the_first_tree_has_leaves():
    assert pairs((1, 2), ([1, 2], {"a": 3})) == ((1, [1, 2]), (2, {"a": 3}))
    assert pairs([None], [3]) == [(None, 3)]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((1, 2), [1, 2], "type mismatch; expected <class 'tuple'>, but got <class 'list'>"),
        ((1, 2), (1, 2, 3), "arity mismatch; expected 2, but got 3"),
        ([1, 2], 3, "type mismatch; expected <class 'list'>, but got <class 'int'>"),
        ({"a": 1}, {"b": 1}, r"keys mismatch; missing key\(s\): {'a'}; extra key\(s\): {'b'}"),
        (Point(1, 2), (3, 4), "type mismatch; expected <function namedtuple"),
    ],
)
def test_trees_that_do_not_fit_are_an_error(first, second, words):
    with pytest.raises(ValueError, match=f"Node {words}"):
        pairs(first, second)


def test_a_structure_prints_itself_and_counts():
    spec = pytree.tree_structure((0, [1, {"a": 2}], Point(3, 4)))
    assert repr(spec) == (
        "TreeSpec(tuple, None, [*,\n"
        "  TreeSpec(list, None, [*,\n"
        "    TreeSpec(dict, ['a'], [*])]),\n"
        "  TreeSpec(namedtuple, <class 'test_pytree.Point'>, [*,\n"
        "    *])])"
    ).replace("test_pytree.Point", f"{__name__}.Point")
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (5, 9, 3)
    assert spec.child(1).children()[0] is pytree.treespec_leaf()
    assert pytree.treespec_pprint(spec) == "(*, [*, {'a': *}], Point(x=*, y=*))"
    assert spec == pickle.loads(pickle.dumps(spec))
    assert hash(spec) == hash(pickle.loads(pickle.dumps(spec)))
    assert spec != pytree.tree_structure((0, [1, {"b": 2}], Point(3, 4)))
    assert pytree.treespec_tuple([spec]) == pytree.TreeSpec(tuple, None, [spec])
    assert pytree.treespec_dict(a=pytree.LeafSpec()) == pytree.tree_structure({"a": 1})


def test_structures_and_keys_are_leaves():
    spec, key = pytree.tree_structure([1]), pytree.SequenceKey(0)
    assert pytree.tree_leaves([spec, key]) == [spec, key]
    assert pytree.MappingKey(0) != key and pytree.SequenceKey(0) == key
    assert repr(pytree.MappingKey("a")) == "MappingKey(key='a')"


@pytest.mark.parametrize(
    "tree",
    [
        1, [1, (2,)], {"a": 1, "b": [2]}, {1: 1, Colour.RED: 2}, OrderedDict(a=1), defaultdict(list, a=1),
        deque([1], maxlen=3), torch.Size([1, 2]), (), None,
    ],
)  # fmt: skip
def test_structures_go_through_text(tree):
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_the_text_is_pytorchs():
    leaf = '{"type": null, "context": null, "children_spec": []}'
    assert pytree.treespec_dumps(pytree.tree_structure({"a": 1})) == (
        f'[1, {{"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": [{leaf}]}}]'
    )
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        pytree.treespec_loads("[2, {}]")
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))


def test_classes_of_users_are_nodes(boxes):
    boxes(
        serialized_type_name="Box", to_dumpable_context=list, from_dumpable_context=set,
        flatten_with_keys_fn=lambda b: ([(pytree.GetAttrKey("content"), b.content)], b.label),
    )  # fmt: skip
    leaves, spec = pytree.tree_flatten([Box([1], {"l"}), 2])
    assert leaves == [1, 2]
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    [(path, leaf), _] = pytree.tree_leaves_with_path([Box([1]), 2])
    assert pytree.keystr(path) == "[0].content[0]" and leaf == 1
    assert pytree.key_get([Box([1]), 2], path) == 1
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, list, list)
    with pytest.raises(ValueError, match="context mismatch"):
        pairs(Box(1, "a"), Box(1, "b"))


def test_a_class_without_a_name_or_keys_says_so(boxes):
    boxes()
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        pytree.treespec_dumps(pytree.tree_structure(Box(1)))
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_flatten_with_path(Box(1))


def test_constants_belong_to_the_structure():
    class Constant:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            return self.value == other.value

        def __hash__(self):
            return hash(self.value)

    pytree.register_constant(Constant)
    leaves, spec = pytree.tree_flatten([Constant(1), 2])
    assert leaves == [2] and pytree.is_constant_class(Constant)
    assert spec == pytree.tree_structure([Constant(1), 3])
    assert spec != pytree.tree_structure([Constant(2), 3])
    assert pytree.tree_unflatten([5], spec)[0].value == 1
    pytree._deregister_pytree_node(Constant)
    with pytest.raises(TypeError, match="__eq__"):
        pytree.register_constant(Box)


def test_only_leaves_of_a_type():
    tree = [1, "a", 2.0]
    assert pytree.tree_map_only(int, lambda x: x + 1, tree) == [2, "a", 2.0]
    assert pytree.tree_map_only((int, float), lambda x: x + 1, tree) == [2, "a", 3.0]
    assert pytree.tree_map_only(int | float, lambda x: x + 1, tree) == [2, "a", 3.0]
    assert pytree.tree_map_only(lambda x: x == "a", str.upper, tree) == [1, "A", 2.0]
    assert pytree.tree_all_only(int, bool, [1, "", 2]) and not pytree.tree_any_only(
        int, bool, [0, "a"]
    )
    with pytest.raises(TypeError, match="a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, len, tree)


def test_one_value_stands_for_a_whole_part():
    _, spec = pytree.tree_flatten(([0, [0, 0]], 0))
    assert pytree._broadcast_to_and_flatten((([1, 2]), 3), spec) == [1, 2, 2, 3]
    assert pytree._broadcast_to_and_flatten(7, spec) == [7] * 4
    assert pytree._broadcast_to_and_flatten((1,), spec) is None


def test_named_results_keep_their_class():
    best = torch.tensor([[1.0, 2.0]]).max(dim=1)
    again = pytree.tree_map(lambda t: t + 1, best)
    assert type(again) is torch.return_types.max and again.values.tolist() == [3.0]
    assert type(pytree.tree_map(lambda n: n + 1, torch.Size([1]))) is torch.Size
    assert pytree.is_structseq(best) and not pytree.is_namedtuple(best)
    assert pytree.is_namedtuple(Point) and pytree.is_namedtuple_instance(Point(1, 2))
