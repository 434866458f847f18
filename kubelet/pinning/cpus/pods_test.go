package cpus_test

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

func says(h numa.Hints) string {
	if h == nil {
		return "none"
	}
	return fmt.Sprint(h["cpu"])
}

// nobody's state is that of a machine on which nothing is given away.
func nobodys(t testing.TB, p *cpus.Policy) cpus.State {
	t.Helper()
	s, err := p.Restore(cpus.State{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMoreOptions: each option alone is accepted, and those of level alpha are refused.
func TestMoreOptions(t *testing.T) {
	for name, want := range map[string]cpus.Options{
		"full-pcpus-only":                  {FullCores: true},
		"distribute-cpus-across-numa":      {AcrossNodes: true},
		"strict-cpu-reservation":           {StrictReserve: true},
		"prefer-align-cpus-by-uncorecache": {ByCache: true},
	} {
		if got, err := cpus.ParseOptions(map[string]string{name: "true"}); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"align-by-socket", "distribute-cpus-across-cores"} {
		_, err := cpus.ParseOptions(map[string]string{name: "true"})
		if want := fmt.Sprintf("CPU Manager Policy Alpha-level Options not enabled, but option %q provided", name); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPodHintsAtOnce: what all containers of a pod need at once decides where it can be.
func TestPodHintsAtOnce(t *testing.T) {
	const one, two = "[{1 true} {2 true} {3 false}]", "[{3 true}]"
	p := policy(t, shape{2, 1, 5, 1}.topology(), "0", cpus.Options{StrictReserve: true}) // four CPUs are left on node 0, five on node 1
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"the sum of the containers":           {pod("a", nil, sized("main", "2"), sized("more", "2")), one},
		"a sum that is too much":              {pod("a", nil, sized("main", "3"), sized("more", "3")), two},
		"the largest init container":          {pod("a", []corev1.Container{sized("init", "4"), sized("next", "1")}, sized("main", "1")), one},
		"an init container that is too large": {pod("a", []corev1.Container{sized("init", "6"), sized("next", "1")}, sized("main", "1")), two},
		"a sidecar beside containers":         {pod("a", []corev1.Container{sidecar("sidecar", "3")}, sized("main", "1")), one},
		"a sidecar that leaves too little":    {pod("a", []corev1.Container{sidecar("sidecar", "3")}, sized("main", "3")), two},
		"several sidecars":                    {pod("a", []corev1.Container{sidecar("one", "2"), sidecar("two", "3")}, sized("main", "1")), two},
		"a sidecar before an init container":  {pod("a", []corev1.Container{sidecar("sidecar", "3"), sized("init", "3")}, sized("main", "1")), two},
		"a sidecar after an init container":   {pod("a", []corev1.Container{sized("init", "3"), sidecar("sidecar", "3")}, sized("main", "1")), one},
		"nothing to itself":                   {pod("a", nil, sized("main", "500m")), "none"},
	} {
		if got := says(p.PodHints(nobodys(t, p), c.pod)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestHintsOfOwn: a container that has CPUs has hints where these are, if they are what it wants.
func TestHintsOfOwn(t *testing.T) {
	p := policy(t, shape{2, 1, 4, 1}.topology(), "0", cpus.Options{})
	given := func(names map[string]string) cpus.State {
		s := nobodys(t, p)
		s.Own = map[types.UID]map[string]cpuset.CPUSet{"a": {}}
		for name, list := range names {
			s.Own["a"][name] = set(t, list)
			s.Shared = s.Shared.Difference(set(t, list))
		}
		return s
	}
	two := given(map[string]string{"main": "5-6"})
	both := given(map[string]string{"main": "2-3", "more": "5"})
	init := given(map[string]string{"init": "4-6"})
	for name, c := range map[string]struct {
		state     cpus.State
		pod       *corev1.Pod
		container int // of which the hints are asked for
		want      string
		ofPod     string
	}{
		"the same": {two, pod("a", nil, sized("main", "2")), 0, "[{2 true} {3 false}]", "[{2 true} {3 false}]"},
		"more":     {two, pod("a", nil, sized("main", "3")), 0, "[]", "[]"},
		"less":     {two, pod("a", nil, sized("main", "1")), 0, "[]", "[]"},
		"all":      {both, pod("a", nil, sized("main", "2"), sized("more", "1")), 1, "[{2 true} {3 false}]", "[{3 false}]"},
		"less of another": {
			both, pod("a", nil, sized("main", "2"), sized("more", "2")), 0, "[{1 true} {3 false}]", "[]",
		},
		"what an init container has left":           {init, pod("a", []corev1.Container{sized("init", "3")}, sized("main", "2")), 0, "[{2 true} {3 false}]", "[{2 true} {3 false}]"},
		"more than an init container has left":      {init, pod("a", []corev1.Container{sized("init", "3")}, sized("main", "4")), 0, "[{2 true} {3 false}]", "[{2 true} {3 false}]"},
		"more than there is with it":                {init, pod("a", []corev1.Container{sized("init", "3")}, sized("main", "5")), 0, "[{3 true}]", "[{3 true}]"},
		"an init container that has other CPUs now": {init, pod("a", []corev1.Container{sized("init", "2")}, sized("main", "2")), 0, "[{2 true} {3 false}]", "[]"},
	} {
		if got := says(p.Hints(c.state, c.pod, &c.pod.Spec.Containers[c.container])); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := says(p.PodHints(c.state, c.pod)); got != c.ofPod {
			t.Errorf("%s, the pod: %s, want %s", name, got, c.ofPod)
		}
	}
}

// TestAgain: what init containers have goes to the containers behind them, each CPU to one of those that run at once.
func TestAgain(t *testing.T) {
	p := policy(t, shape{1, 1, 8, 1}.topology(), "0", cpus.Options{})
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		atOnce []string // the containers that run at once
		shared string
	}{
		"two containers":           {pod("a", []corev1.Container{sized("init", "7")}, sized("main", "3"), sized("more", "4")), []string{"main", "more"}, "0"},
		"a sidecar":                {pod("a", []corev1.Container{sized("init", "7"), sidecar("proxy", "1")}, sized("main", "6")), []string{"proxy", "main"}, "0"},
		"a sidecar, and the next":  {pod("a", []corev1.Container{sized("init", "7"), sidecar("proxy", "1"), sized("next", "6")}, sized("main", "2")), []string{"proxy", "next"}, "0"},
		"a sidecar, and the last":  {pod("a", []corev1.Container{sized("init", "7"), sidecar("proxy", "1"), sized("next", "6")}, sized("main", "6")), []string{"proxy", "main"}, "0"},
		"two sidecars":             {pod("a", []corev1.Container{sized("init", "7"), sidecar("one", "3"), sidecar("two", "3")}, sized("main", "1")), []string{"one", "two", "main"}, "0"},
		"less than is there again": {pod("a", []corev1.Container{sized("init", "2")}, sized("main", "1"), sized("more", "1")), []string{"main", "more"}, "0,3-7"},
	} {
		s, err := all(p, nobodys(t, p), c.pod, 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		used := cpuset.New()
		for _, container := range c.atOnce {
			mine, own := s.Of("a", container)
			if !own || !used.Intersection(mine).IsEmpty() {
				t.Errorf("%s: %s has %s, others %s", name, container, mine, used)
			}
			used = used.Union(mine)
		}
		if s.Shared.String() != c.shared {
			t.Errorf("%s: %s are shared, want %s", name, s.Shared, c.shared)
		}
		again, err := all(p, s, c.pod, 0)
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s, asked again: %+v, %v, want %+v", name, again, err, s)
		}
	}
}

// TestWithout: only the CPUs of pods that have gone are shared again.
func TestWithout(t *testing.T) {
	p := policy(t, shape{1, 1, 8, 1}.topology(), "0", cpus.Options{})
	one, err := all(p, nobodys(t, p), pod("a", nil, sized("main", "2")), 0)
	if err != nil {
		t.Fatal(err)
	}
	both, err := all(p, one, pod("b", nil, sized("main", "3"), sized("more", "1")), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := both.Without(func(uid types.UID) bool { return uid == "a" }); !got.Shared.Equals(one.Shared) || !reflect.DeepEqual(got.Own, one.Own) {
		t.Errorf("%+v, want %+v", got, one)
	}
	if got := both.Without(func(types.UID) bool { return true }); !reflect.DeepEqual(got, both) {
		t.Errorf("%+v, want %+v", got, both)
	}
}
