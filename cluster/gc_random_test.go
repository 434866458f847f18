package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// kinship lists the owners, by index, of config maps; later ones are owned by earlier ones.
type kinship [][]int

// bereave returns what is left and what is gone once a deletion is complete.
func (f kinship) bereave(who int, policy metav1.DeletionPropagation, gone []bool) {
	gone[who] = true
	for i := range f {
		if policy == metav1.DeletePropagationOrphan {
			f[i] = slices.DeleteFunc(f[i], func(o int) bool { return o == who })
		}
		// Owners come before what they own, so one pass suffices.
		left := slices.DeleteFunc(slices.Clone(f[i]), func(o int) bool { return gone[o] })
		if len(f[i]) > 0 && len(left) == 0 {
			gone[i] = true
		}
		f[i] = left
	}
}

// TestGarbageCollectionRandom deletes randomly from random families and compares what is left with what should be.
func TestGarbageCollectionRandom(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, 0))
			relatives := make(kinship, 12)
			gone := make([]bool, len(relatives))
			made := make([]metav1.OwnerReference, len(relatives))
			for i := range relatives {
				cm := configMap(fmt.Sprintf("r%d-%02d", seed, i))
				for j := range i {
					if random.IntN(4) == 0 {
						blocks := random.IntN(2) == 0
						made[j].BlockOwnerDeletion = &blocks
						cm.OwnerReferences = append(cm.OwnerReferences, made[j])
						relatives[i] = append(relatives[i], j)
					}
				}
				got, err := w.cs.CoreV1().ConfigMaps("default").Create(w.ctx, cm, metav1.CreateOptions{})
				w.check(err)
				made[i] = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: got.Name, UID: got.UID}
			}
			policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
			for range 5 {
				who, policy := random.IntN(len(relatives)), policies[random.IntN(len(policies))]
				if gone[who] {
					continue
				}
				w.check(w.cs.CoreV1().ConfigMaps("default").Delete(w.ctx, made[who].Name, metav1.DeleteOptions{PropagationPolicy: &policy}))
				time.Sleep(10 * time.Second)
				relatives.bereave(who, policy, gone)
				if got, want := w.owned(fmt.Sprintf("r%d-", seed)), relatives.text(seed, gone); got != want {
					t.Fatalf("seed %d, after %s of %s: left are\n%s, want\n%s", seed, policy, made[who].Name, got, want)
				}
			}
		}
	})
}

func (f kinship) text(seed uint64, gone []bool) string {
	var list []string
	for i, owners := range f {
		if gone[i] {
			continue
		}
		text := fmt.Sprintf("r%d-%02d", seed, i)
		for _, o := range owners {
			text += fmt.Sprintf("<r%d-%02d", seed, o)
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// owned lists config maps of a prefix with their owners.
func (w *world) owned(prefix string) string {
	w.t.Helper()
	all, err := w.cs.CoreV1().ConfigMaps("default").List(w.ctx, metav1.ListOptions{})
	w.check(err)
	var list []string
	for _, cm := range all.Items {
		if !strings.HasPrefix(cm.Name, prefix) {
			continue
		}
		text := cm.Name
		for _, ref := range cm.OwnerReferences {
			text += "<" + ref.Name
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}
