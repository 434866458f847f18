package core_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// amounts returns a list of resources from pairs of a name and a quantity.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func limitRange(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func TestLimitRange(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "limitranges")
	const ofContainer, ofPod, ofClaim = corev1.LimitTypeContainer, corev1.LimitTypePod, corev1.LimitTypePersistentVolumeClaim
	type item = corev1.LimitRangeItem
	type change = registrytest.Change[*corev1.LimitRange]
	only := func(items ...item) func(*corev1.LimitRange) {
		return func(r *corev1.LimitRange) { r.Spec.Limits = items }
	}
	const name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	const standard, ofContainers = "must be a standard resource type or fully qualified", "must be a standard resource for containers"
	const first = "spec.limits[0]."
	changes := []change{
		{Name: "nothing", To: only()},
		{Name: "of another domain", To: only(item{Type: "example.com/disk", Max: amounts("pods", "1")})},
		{Name: "types", To: only(item{Type: "Node"}, item{Type: "a b"}, item{Type: ofPod}, item{Type: ofPod}), Refused: []string{
			`spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified`,
			`spec.limits[1].type: Invalid value: "a b": ` + name,
			`spec.limits[3].type: Duplicate value: "Pod"`}},
		{Name: "names for containers", To: only(item{Type: ofContainer, Max: amounts("a b", "1"), Min: amounts("pods", "1"), MaxLimitRequestRatio: amounts("x", "1")}), Refused: []string{
			first + `max[a b]: Invalid value: "a b": ` + name,
			first + `max[a b]: Invalid value: "a b": ` + ofContainers,
			first + `min[pods]: Invalid value: "pods": ` + ofContainers,
			first + `default[a b]: Invalid value: "a b": ` + name,
			first + `default[a b]: Invalid value: "a b": ` + ofContainers,
			first + `defaultRequest[a b]: Invalid value: "a b": ` + name,
			first + `defaultRequest[a b]: Invalid value: "a b": ` + ofContainers,
			first + `defaultRequest[pods]: Invalid value: "pods": ` + ofContainers,
			first + `maxLimitRequestRatio[x]: Invalid value: "x": ` + standard,
			first + `maxLimitRequestRatio[x]: Invalid value: "x": ` + ofContainers}},
		{Name: "names for pods", To: only(item{Type: ofPod, Max: amounts("x", "1", "example.com/gpu", "1", "hugepages-2Mi", "2Mi")}), Refused: []string{
			first + `max[x]: Invalid value: "x": ` + standard,
			first + `max[x]: Invalid value: "x": ` + ofContainers}},
		{Name: "names for claims", To: only(item{Type: ofClaim, Max: amounts("storage", "1", "x", "1"), Default: amounts("y", "1")}), Refused: []string{
			first + `max[x]: Invalid value: "x": ` + standard,
			first + `default[y]: Invalid value: "y": ` + standard}},
		{Name: "claims without storage", To: only(item{Type: ofClaim, Max: amounts("requests.storage", "1")}), Refused: []string{
			first + `limits: Required value: either minimum or maximum storage value is required, but neither was provided`}},
		{Name: "claims of some size", To: only(item{Type: ofClaim, Min: amounts("storage", "1")})},
		{Name: "defaults of pods", To: only(item{Type: ofPod, Max: amounts("cpu", "1"), Default: amounts("cpu", "9"), DefaultRequest: amounts("cpu", "9")}), Refused: []string{
			first + "default: Forbidden: may not be specified when `type` is 'Pod'",
			first + "defaultRequest: Forbidden: may not be specified when `type` is 'Pod'"}},
		{Name: "minimum and maximum", To: only(item{Type: ofPod, Min: amounts("cpu", "2"), Max: amounts("cpu", "1")}), Refused: []string{
			first + `min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`}},
		{Name: "a small request", To: only(item{Type: ofContainer, Min: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1")}), Refused: []string{
			first + `defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1`}},
		{Name: "a large request", To: only(item{Type: ofContainer, Max: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "3")}), Refused: []string{
			first + `defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2`,
			first + `defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default limit value 2`}},
		{Name: "a small limit", To: only(item{Type: ofContainer, Min: amounts("cpu", "2"), Default: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "2")}), Refused: []string{
			first + `defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default limit value 1`,
			first + `default[cpu]: Invalid value: "2": min value 2 is greater than default value 1`}},
		{Name: "a large limit", To: only(item{Type: ofContainer, Max: amounts("cpu", "2"), Default: amounts("cpu", "3"), DefaultRequest: amounts("cpu", "1")}), Refused: []string{
			first + `default[cpu]: Invalid value: "2": default value 3 is greater than max value 2`}},
		{Name: "a small ratio", To: only(item{Type: ofPod, MaxLimitRequestRatio: amounts("cpu", "900m", "memory", "1")}), Refused: []string{
			first + `maxLimitRequestRatio[cpu]: Invalid value: "900m": ratio 900m is less than 1`}},
		{Name: "a large ratio", To: only(item{Type: ofPod, Min: amounts("cpu", "2"), Max: amounts("cpu", "3"), MaxLimitRequestRatio: amounts("cpu", "1501m")}), Refused: []string{
			first + `maxLimitRequestRatio[cpu]: Invalid value: "1501m": ratio 1501m is greater than max/min = 1.500000`}},
		{Name: "the largest ratio", To: only(item{Type: ofPod, Min: amounts("cpu", "2"), Max: amounts("cpu", "3"), MaxLimitRequestRatio: amounts("cpu", "1500m")})},
		{Name: "a ratio of large numbers", To: only(item{Type: ofPod, Min: amounts("memory", "9Pi"), Max: amounts("memory", "27Pi"), MaxLimitRequestRatio: amounts("memory", "3100m")}), Refused: []string{
			first + `maxLimitRequestRatio[memory]: Invalid value: "3100m": ratio 3100m is greater than max/min = 3.000000`}},
		{Name: "overcommitment", To: only(item{Type: ofContainer, Default: amounts("example.com/gpu", "2", "cpu", "2"), DefaultRequest: amounts("example.com/gpu", "1", "cpu", "1")}), Refused: []string{
			first + `defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu`}},
	}
	good := limitRange(item{Type: ofContainer, Min: amounts("cpu", "100m"), Max: amounts("cpu", "2", "memory", "1Gi"), MaxLimitRequestRatio: amounts("cpu", "10")}, item{Type: ofPod, Max: amounts("cpu", "4")})
	registrytest.Create(t, k, good, changes)
	registrytest.Update(t, k, "", good, changes)
}

func TestLimitRangeDefaults(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "limitranges")
	type item = corev1.LimitRangeItem
	for name, tt := range map[string]struct{ given, want item }{
		"pods have none": {item{Type: "Pod", Max: amounts("cpu", "1")}, item{Type: "Pod", Max: amounts("cpu", "1")}},
		"nothing":        {item{Type: "Container"}, item{Type: "Container"}},
		"from the maximum": {item{Type: "Container", Max: amounts("cpu", "2"), Min: amounts("cpu", "1", "memory", "1")}, item{
			Type: "Container", Max: amounts("cpu", "2"), Min: amounts("cpu", "1", "memory", "1"),
			Default: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "2", "memory", "1")}},
		"from the limit": {item{Type: "Container", Max: amounts("cpu", "2"), Default: amounts("cpu", "1")}, item{
			Type: "Container", Max: amounts("cpu", "2"), Default: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1")}},
		"set": {item{Type: "Container", Max: amounts("cpu", "3"), Default: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1")}, item{
			Type: "Container", Max: amounts("cpu", "3"), Default: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1")}},
		"rounded up": {item{Type: "x/y", Max: amounts("cpu", "100u"), Min: amounts("cpu", "10u"), Default: amounts("cpu", "1u"), DefaultRequest: amounts("cpu", "1u"), MaxLimitRequestRatio: amounts("cpu", "1u")}, item{
			Type: "x/y", Max: amounts("cpu", "1m"), Min: amounts("cpu", "1m"), Default: amounts("cpu", "1m"), DefaultRequest: amounts("cpu", "1m"), MaxLimitRequestRatio: amounts("cpu", "1m")}},
	} {
		r := limitRange(tt.given)
		k.Rules.Default(r)
		if got := r.Spec.Limits[0]; !equality.Semantic.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestLimitRangeName: a limit range that has no name gets one.
func TestLimitRangeName(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "limitranges")
	names := map[string]bool{}
	for range 2 {
		r := limitRange()
		r.Name = ""
		registrytest.Prepare(k, r)
		names[r.Name] = len(r.Name) == 36
	}
	named := limitRange()
	registrytest.Prepare(k, named)
	names[named.Name] = true
	if len(names) != 3 || !names["l"] {
		t.Errorf("named %v", names)
	}
	for made := range maps.Values(names) {
		if !made {
			t.Errorf("named %v", names)
		}
	}
}
