package garbagecollector_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers/garbagecollector"
)

// object reads "uid namespace/name < owner, owner ! finalizer". An owner is "uid" or "uid=name",
// with "+" in front when its deletion is to be blocked, and "~version/Kind" behind when it is not v1/ConfigMap.
func object(text string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{}
	text, finalizer, deleted := strings.Cut(text, " ! ")
	if deleted {
		obj.DeletionTimestamp = &metav1.Time{}
		obj.Finalizers = strings.Fields(finalizer)
	}
	text, owners, _ := strings.Cut(text, " < ")
	uid, name, _ := strings.Cut(strings.TrimSpace(text), " ")
	obj.UID = types.UID(uid)
	if namespace, short, ok := strings.Cut(name, "/"); ok {
		obj.Namespace, name = namespace, short
	}
	obj.Name = name
	for owner := range strings.SplitSeq(owners, ", ") {
		if owner == "" {
			continue
		}
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap"}
		owner, blocks := strings.CutPrefix(owner, "+")
		if blocks {
			ref.BlockOwnerDeletion = &blocks
		}
		owner, kind, other := strings.Cut(owner, "~")
		if other {
			ref.APIVersion, ref.Kind, _ = strings.Cut(kind, "/")
		}
		uid, name, named := strings.Cut(owner, "=")
		if !named {
			name = uid
		}
		ref.UID, ref.Name = types.UID(uid), name
		obj.OwnerReferences = append(obj.OwnerReferences, ref)
	}
	return obj
}

// TestGraph tells the graph of events and holds it to the objects that then need a look.
func TestGraph(t *testing.T) {
	for name, steps := range map[string][]string{
		"an owner first": {
			"see a ns/a -> ", "see b ns/b < a -> ", "see b ns/b < a -> ", "gone a ns/a -> b", "gone b ns/b -> ", "size 0",
		},
		"a dependent first": {
			"see b ns/b < a -> a", "see c ns/c < a -> ", "see a ns/a -> ", "size 3", "gone b ns/b -> ", "gone c ns/c -> ", "gone a ns/a -> ", "size 0",
		},
		"an owner that is nowhere": {
			"see b ns/b < a -> a", "see c ns/c < a -> ", "missing a ns/a -> b c", "absent a ns/a", "size 2", "see d ns/d < a -> a", "missing a ns/a -> d",
		},
		"nobody refers to it any more": {
			"see b ns/b < a -> a", "see b ns/b -> ", "size 1",
		},
		"foreground": {
			"see a ns/a -> ", "see b ns/b < +a -> ", "see c ns/c < +a -> ", "see a ns/a ! foregroundDeletion -> b c a", "see a ns/a ! foregroundDeletion -> ",
			"see b ns/b < a -> a", "see b ns/b < a -> ", "see c ns/c -> a", "see d ns/d < a -> d", "gone b ns/b -> a", "gone d ns/d < a -> a",
		},
		"orphan": {
			"see a ns/a -> ", "see b ns/b < +a -> ", "see a ns/a ! orphan -> a", "see a ns/a ! orphan -> ", "see b ns/b -> ",
		},
		"deleted when first seen": {
			"see b ns/b < a -> a", "see a ns/a ! foregroundDeletion -> b a",
		},
		"an owner elsewhere": {
			"see a there/a -> ", "see b ns/b < a -> b, b [v1/ConfigMap, namespace: ns, name: a, uid: a]", "see b ns/b < a -> ", "see c there/c < a -> ",
			"missing a ns/a -> b", "absent a ns/a", "present a there/a", "gone a there/a -> b c",
		},
		"an owner that turns out to be elsewhere": {
			"see b ns/b < a -> a", "see c there/c < a -> c", "see a there/a -> b, b [v1/ConfigMap, namespace: ns, name: a, uid: a]",
		},
		"an owner of another name": {
			"see a ns/a -> ", "see b ns/b < a=x -> b", "see c ns/c < a -> ", "missing a ns/x -> b", "present a ns/a",
		},
		"an owner of another kind or version": {
			"see a ns/a -> ", "see b ns/b < a~v2/ConfigMap -> b", "see c ns/c < a~v1/Secret -> c", "see d ns/d < a -> ",
		},
		"an owner made again": {
			"see b ns/b < a=x -> a", "see b ns/b < c=x -> c", "size 2",
		},
		"an owner that the cache has and the server has not": {
			"see a ns/a -> ", "see b ns/b < a -> ", "missing a ns/a -> b", "size 1", "absent a ns/a",
		},
		"nobody asked": {
			"missing a ns/a -> ", "see a ns/a -> ", "gone a ns/a -> ", "present a ns/a",
			"see c ns/c -> ", "see d ns/d < c -> ", "missing c ns/z -> ", "present c ns/z",
		},
		"by the right name and a wrong one": {
			"see b ns/b < a=x -> a", "see c ns/c < a -> c", "see a ns/x -> ", "virtual a",
		},
		"two owners, one of which waits": {
			"see a ns/a ! foregroundDeletion -> a", "see b ns/b -> ", "see c ns/c < a, b -> c",
		},
		"two owners elsewhere": {
			"see a there/a -> ", "see c there/c -> ", "see b ns/b < a, c -> b, b [v1/ConfigMap, namespace: ns, name: a, uid: a]",
		},
		"an owner without namespace, by a wrong name": {
			"see b ns/b < a=x -> a", "see a a -> b", "see c ns/c < a=x -> c", "size 3",
		},
		"an owner without namespace that is nowhere": {
			"see b ns/b < a -> a", "missing a a -> b", "size 1", "absent a a", "absent a ns/a", "absent a there/a",
		},
		"names of an owner without namespace": {
			"see d d < a=w -> a", "see b ns/b < a=x, z=wx -> z b", "see c ns/c < a=y~v1/Secret -> c", "see e ns/e < a=z~v2/ConfigMap -> e",
			"missing a w -> d", "virtual a [v1/ConfigMap, namespace: , name: x, uid: a]",
			"missing a x -> b", "virtual a [v2/ConfigMap, namespace: ns, name: z, uid: a]",
		},
		"a name asked for that is not the one to be asked for": {
			"see b ns/b < a=x -> a", "see c ns/c < a=y -> c", "see d ns/d < a=z -> d",
			"missing a ns/y -> c", "virtual a [v1/ConfigMap, namespace: ns, name: x, uid: a]",
		},
		"an owner without namespace": {
			"see a a -> ", "see b ns/b < a -> ", "see c there/c < a -> ", "see d d < a -> ", "gone a a -> d b c", "absent a a",
		},
		"a dependent without namespace": {
			"see d d < a -> a", "see b ns/b < a -> b", "see a ns/a -> d, d [v1/ConfigMap, namespace: , name: a, uid: a]",
		},
		"several names": {
			"see b ns/b < a=x -> a", "see c ns/c < a=y -> c", "see d ns/d < a=z, a=y -> d",
			"missing a ns/x -> b", "virtual a [v1/ConfigMap, namespace: ns, name: y, uid: a]",
			"missing a ns/y -> c d", "virtual a [v1/ConfigMap, namespace: ns, name: z, uid: a]",
			"missing a ns/z -> d", "virtual a [v1/ConfigMap, namespace: ns, name: x, uid: a]",
			"gone b ns/b -> ", "gone c ns/c -> ", "missing a ns/x -> ", "virtual a [v1/ConfigMap, namespace: ns, name: y, uid: a]",
			"gone d ns/d -> ", "size 0",
		},
		"a name asked for that is not the one it has": {
			"see b ns/b < a=x -> a", "see a ns/a -> b", "missing a ns/x -> b", "size 2", "present a ns/a",
		},
		"a cycle": {
			"see a ns/a < +b -> b", "see b ns/b < +a -> ", "see a ns/a < +b ! foregroundDeletion -> b a", "see b ns/b < +a ! foregroundDeletion -> a b",
			"gone b ns/b -> a a", "gone a ns/a -> ", "size 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := garbagecollector.NewGraph()
			for i, step := range steps {
				verb, rest, _ := strings.Cut(step, " ")
				rest, want, _ := strings.Cut(rest, " -> ")
				var got string
				switch verb {
				case "see":
					look, invalid := g.Observe("ConfigMap", object(rest))
					got = strings.Join(append([]string{strings.Join(look, " ")}, invalid...), ", ")
				case "gone":
					got = strings.Join(g.Forget("ConfigMap", object(rest)), " ")
				case "missing":
					got = strings.Join(g.Missing("ConfigMap", object(rest)), " ")
				case "absent", "present":
					if g.Absent("ConfigMap", object(rest)) != (verb == "absent") {
						got = "is not " + verb
					}
				case "virtual":
					uid, identity, _ := strings.Cut(rest, " ")
					got, want = g.Virtual(uid), identity
				case "size":
					got, want = strings.Repeat("|", g.Size()), strings.Repeat("|", slices.Index([]string{"0", "1", "2", "3"}, rest))
				}
				if got != want {
					t.Errorf("step %d, %s: got %q", i, step, got)
				}
			}
		})
	}
}
