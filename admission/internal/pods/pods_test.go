package pods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/admission/internal/pods"
)

func toleration(key string, op corev1.TolerationOperator, value string, effect corev1.TaintEffect, seconds *int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: op, Value: value, Effect: effect, TolerationSeconds: seconds}
}

const (
	exists = corev1.TolerationOpExists
	equals = corev1.TolerationOpEqual
	never  = corev1.TaintEffectNoSchedule
	evicts = corev1.TaintEffectNoExecute
)

// Whether one toleration covers another shows in what merging them leaves.
func TestMerge(t *testing.T) {
	five, ten := new(int64(5)), new(int64(10))
	for name, c := range map[string]struct {
		wide, narrow corev1.Toleration
		covered      bool
	}{
		"the same":                   {toleration("a", equals, "1", never, nil), toleration("a", equals, "1", never, nil), true},
		"another value":              {toleration("a", equals, "1", never, nil), toleration("a", equals, "2", never, nil), false},
		"any value":                  {toleration("a", exists, "", never, nil), toleration("a", equals, "2", never, nil), true},
		"another key":                {toleration("a", exists, "", never, nil), toleration("b", equals, "2", never, nil), false},
		"any key":                    {toleration("", exists, "", never, nil), toleration("b", equals, "2", never, nil), true},
		"no key, but a value":        {toleration("", equals, "2", never, nil), toleration("b", equals, "2", never, nil), false},
		"another effect":             {toleration("a", exists, "", never, nil), toleration("a", equals, "2", evicts, nil), false},
		"any effect":                 {toleration("a", exists, "", "", nil), toleration("a", equals, "2", evicts, nil), true},
		"shorter":                    {toleration("a", exists, "", evicts, ten), toleration("a", equals, "2", evicts, five), true},
		"as long":                    {toleration("a", exists, "", evicts, ten), toleration("a", equals, "2", evicts, ten), true},
		"longer":                     {toleration("a", exists, "", evicts, five), toleration("a", equals, "2", evicts, ten), false},
		"for good":                   {toleration("a", exists, "", evicts, five), toleration("a", equals, "2", evicts, nil), false},
		"not for good":               {toleration("a", exists, "", evicts, nil), toleration("a", equals, "2", evicts, ten), true},
		"seconds of another effect":  {toleration("a", exists, "", never, five), toleration("a", equals, "2", never, ten), true},
		"an operator left out":       {toleration("a", "", "1", never, nil), toleration("a", equals, "1", never, nil), true},
		"an operator nobody knows":   {toleration("a", "Lt", "1", never, nil), toleration("a", equals, "1", never, nil), false},
		"of a value, all of the key": {toleration("a", equals, "1", never, nil), toleration("a", exists, "1", never, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			// What is narrower goes, wherever it stands; the last row is narrower itself.
			want := map[bool][]corev1.Toleration{true: {c.wide}, false: {c.wide, c.narrow}}[c.covered]
			turned := map[bool][]corev1.Toleration{true: {c.wide}, false: {c.narrow, c.wide}}[c.covered]
			if c.narrow.Operator == exists {
				want, turned = []corev1.Toleration{c.narrow}, []corev1.Toleration{c.narrow}
			}
			if got := pods.Merge([]corev1.Toleration{c.wide}, []corev1.Toleration{c.narrow}); !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if got := pods.Merge([]corev1.Toleration{c.narrow}, []corev1.Toleration{c.wide}); !equality.Semantic.DeepEqual(got, turned) {
				t.Errorf("turned: got %v, want %v", got, turned)
			}
			if got := pods.Allowed([]corev1.Toleration{c.narrow}, []corev1.Toleration{toleration("z", exists, "", never, nil), c.wide}); got != c.covered {
				t.Errorf("allowed: %t", got)
			}
		})
	}
	if !pods.Allowed([]corev1.Toleration{toleration("a", exists, "", never, nil)}, nil) {
		t.Error("an empty list refuses")
	}
	if pods.Allowed([]corev1.Toleration{toleration("a", exists, "", never, nil), toleration("b", exists, "", never, nil)}, []corev1.Toleration{toleration("a", exists, "", never, nil)}) {
		t.Error("one that is allowed is enough")
	}
}
