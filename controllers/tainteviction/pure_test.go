package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/controllers"
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
		"by comparison":          {[]corev1.Taint{a}, []corev1.Toleration{{Key: "a", Operator: "Lt", Value: "5"}}, -1, true},
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

// TestDeadlines: a deadline is kept to the moment, and is out of reach once the deletion began.
func TestDeadlines(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	key := controllers.Key{Namespace: "ns", Name: "p"}
	e := newEvictions()
	if _, due := e.start(key, at(0)); due || e.stands(key, at(0)) || e.cancel(key) {
		t.Error("there is one already")
	}
	if !e.set(key, at(0), at(10)) || e.set(key, at(1), at(2)) {
		t.Error("the first is not the one that counts")
	}
	if e.stands(key, at(0)) || !e.stands(key, at(1)) {
		t.Error("only one that was set earlier stands")
	}
	for _, early := range []float64{0, 9.5, 9.999} {
		if wait, due := e.start(key, at(early)); due || wait != at(10).Sub(at(early)) {
			t.Errorf("at %v s: due %v, wait %v", early, due, wait)
		}
	}
	if !e.cancel(key) || e.cancel(key) {
		t.Error("it can be called off once")
	}
	e.set(key, at(20), at(30))
	if wait, due := e.start(key, at(30)); !due || wait != 0 {
		t.Errorf("due %v, wait %v", due, wait)
	}
	if !e.stands(key, at(20)) || e.cancel(key) || e.set(key, at(31), at(40)) {
		t.Error("the deletion under way was forgotten")
	}
	e.done(key)
	if e.stands(key, at(40)) || !e.set(key, at(40), at(40)) {
		t.Error("it is not over")
	}
	if !e.stands(key, at(40)) || e.cancel(key) {
		t.Error("one that is due at once stands, and nobody need be told that it was called off")
	}
}
