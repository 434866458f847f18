package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestTolerated(t *testing.T) {
	a := corev1.Taint{Key: "a", Value: "1", Effect: corev1.TaintEffectNoExecute}
	b := corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoExecute}
	exists := func(key string, seconds ...int64) corev1.Toleration {
		out := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
		for _, s := range seconds {
			out.TolerationSeconds = ptr.To(s)
		}
		return out
	}
	for name, tt := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		after       time.Duration
		leaves      bool
	}{
		"no toleration":          {[]corev1.Taint{a}, nil, -1, true},
		"another one":            {[]corev1.Taint{a}, []corev1.Toleration{exists("b")}, -1, true},
		"another effect":         {[]corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, -1, true},
		"another value":          {[]corev1.Taint{a}, []corev1.Toleration{{Key: "a", Value: "2"}}, -1, true},
		"for ever":               {[]corev1.Taint{a}, []corev1.Toleration{{Key: "a", Value: "1"}}, 0, false},
		"everything":             {[]corev1.Taint{a, b}, []corev1.Toleration{exists("")}, 0, false},
		"for a time":             {[]corev1.Taint{a}, []corev1.Toleration{exists("a", 300)}, 300 * time.Second, true},
		"no time":                {[]corev1.Taint{a}, []corev1.Toleration{exists("a", 0)}, 0, true},
		"less than no time":      {[]corev1.Taint{a}, []corev1.Toleration{exists("a", -5)}, 0, true},
		"one of two":             {[]corev1.Taint{a, b}, []corev1.Toleration{exists("a", 300)}, -1, true},
		"the least":              {[]corev1.Taint{a, b}, []corev1.Toleration{exists("a", 300), exists("b", 20)}, 20 * time.Second, true},
		"the least comes first":  {[]corev1.Taint{a, b}, []corev1.Toleration{exists("a", 20), exists("b", 300)}, 20 * time.Second, true},
		"no time comes first":    {[]corev1.Taint{a, b}, []corev1.Toleration{exists("a", 0), exists("b", 300)}, 0, true},
		"for ever comes last":    {[]corev1.Taint{a, b}, []corev1.Toleration{exists("a", 20), exists("b")}, 20 * time.Second, true},
		"the last is not":        {[]corev1.Taint{b, a}, []corev1.Toleration{exists("b")}, -1, true},
		"one for ever":           {[]corev1.Taint{a, b}, []corev1.Toleration{exists("a"), exists("b", 20)}, 20 * time.Second, true},
		"the first that matches": {[]corev1.Taint{a}, []corev1.Toleration{exists("a", 300), exists("a", 20)}, 300 * time.Second, true},
	} {
		after, leaves := tolerated(tt.taints, tt.tolerations)
		if after != tt.after || leaves != tt.leaves {
			t.Errorf("%s: %v %v, want %v %v", name, after, leaves, tt.after, tt.leaves)
		}
	}
}
