package resource_test

import (
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// stays updates the labels of objects that are invalid. What upstream declares is not said of what stays as it was, but what it
// has written out is: mostly what a create is refused with, in other words where there are some.
func stays[T registry.Object](t *testing.T, k registry.Kind, good func() T, changes []registrytest.Change[T], other map[string][]string) {
	t.Helper()
	for _, change := range changes {
		t.Run(change.Name+" stays", func(t *testing.T) {
			old := good()
			change.To(old)
			if k.Rules.Default != nil {
				k.Rules.Default(old)
			}
			obj := old.DeepCopyObject().(T)
			obj.SetLabels(map[string]string{"a": "b"})
			want, differs := other[change.Name]
			if !differs {
				want = slices.Sorted(slices.Values(change.Refused))
			}
			var got []string
			for _, e := range registrytest.Replace(k, "", obj, old) {
				got = append(got, e.Error())
			}
			if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("refused with\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		})
	}
}

func template(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: c.Spec}}
}

// templateChanges are changes of the claim in a template.
func templateChanges(changes []claimChange) []registrytest.Change[*resourcev1.ResourceClaimTemplate] {
	var out []registrytest.Change[*resourcev1.ResourceClaimTemplate]
	for _, c := range changes {
		var refused []string
		for _, r := range c.Refused {
			refused = append(refused, "spec."+r)
		}
		out = append(out, registrytest.Change[*resourcev1.ResourceClaimTemplate]{Name: c.Name, To: func(t *resourcev1.ResourceClaimTemplate) {
			of := &resourcev1.ResourceClaim{Spec: t.Spec.Spec}
			c.To(of)
			t.Spec.Spec = of.Spec
		}, Refused: refused})
	}
	return out
}

func TestTemplatesStay(t *testing.T) {
	const requests = `spec.spec.devices.requests`
	stays(t, find(t, "resourceclaimtemplates"), func() *resourcev1.ResourceClaimTemplate { return template(claim()) },
		templateChanges(append(claimChanges(),
			claimChange{Name: "a class of an alternative", To: sub(func(s *resourcev1.DeviceSubRequest) { s.DeviceClassName = "A" }), Refused: []string{
				`spec.devices.requests[1].firstAvailable[0].deviceClassName: Invalid value: "A": ` + subdomain}},
			claimChange{Name: "a mode of an alternative", To: sub(func(s *resourcev1.DeviceSubRequest) { s.AllocationMode = "Some" }), Refused: []string{
				`spec.devices.requests[1].firstAvailable[0].allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`}},
		)), map[string][]string{
			"attributes": {
				`spec.spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash`,
				`spec.spec.devices.constraints[1].distinctAttribute: Invalid value: "": the domain must not be empty`,
			},
			"too many alternatives": {requests + `[1].firstAvailable: Too many: 9: must have at most 8 items`},
		})
}

func TestSlicesStay(t *testing.T) {
	const one = `spec.devices[0].attributes[model]: Invalid value: "": exactly one value must be specified`
	stays(t, find(t, "resourceslices"), slice, append(sliceChanges(),
		sliceChange{Name: "an empty list", To: attribute(resourcev1.DeviceAttribute{IntValues: []int64{}})},
	), map[string][]string{
		"counters and devices": {
			"spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
			`spec.sharedCounters[0].name: Invalid value: "A": ` + label, `spec.sharedCounters[0].counters: Required value`,
			`spec.sharedCounters[1].counters: Invalid value: "B": ` + label, `spec.sharedCounters[2]: Duplicate value: "b"`,
		},
		"no value": {one}, "two values": {one}, "an empty list": {`spec.devices[0].attributes[model].ints: Invalid value: []: must not be empty if specified`},
		"a policy": nil, "a taint": nil, "many taints": nil,
	})
}

// TestCountersStay: counter sets are what they were if their names are.
func TestCountersStay(t *testing.T) {
	set := func(name, counter string) resourcev1.CounterSet {
		return resourcev1.CounterSet{Name: name, Counters: map[string]resourcev1.Counter{counter: {}}}
	}
	old := slice()
	old.Spec.Devices, old.Spec.SharedCounters = nil, []resourcev1.CounterSet{set("a", "a"), set("b", "B"), set("c", "C")}
	now := old.DeepCopy()
	now.Spec.SharedCounters = []resourcev1.CounterSet{set("d", "D"), set("b", "B"), set("c", "E")}
	var got []string
	for _, e := range registrytest.Replace(find(t, "resourceslices"), "", now, old) {
		got = append(got, e.Field)
	}
	// What is declared comes last.
	if want := []string{"spec.sharedCounters[1].counters", "spec.sharedCounters[0].counters", "spec.sharedCounters[2].counters"}; !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
}

func TestClassesStay(t *testing.T) {
	k := find(t, "deviceclasses")
	for _, name := range []string{"cpu", "kubernetes.io/gpu", "a.kubernetes.io/gpu", "requests.example.com/gpu", "example.com/" + repeat(64)} {
		old := class()
		old.Spec.ExtendedResourceName = new(name)
		now := old.DeepCopy()
		now.Labels = map[string]string{"a": "b"}
		if errs := registrytest.Replace(k, "", now, old); len(errs) != 1 || errs[0].Detail != "must be a valid extended resource name" {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestTaintRulesStay: an effect that is not known may stay.
func TestTaintRulesStay(t *testing.T) {
	old := taintRule()
	old.Spec.Taint.Effect = "Evict"
	registrytest.Update(t, find(t, "devicetaintrules"), "", old, []registrytest.Change[*resourcev1.DeviceTaintRule]{
		{Name: "labels", To: func(r *resourcev1.DeviceTaintRule) { r.Labels = map[string]string{"a": "b"} }},
		{Name: "another effect", To: func(r *resourcev1.DeviceTaintRule) { r.Spec.Taint.Effect = "Expel" }, Refused: []string{
			`spec.taint.effect: Unsupported value: "Expel": supported values: "NoExecute", "NoSchedule", "None"`}},
	})
}

// TestItemsStay: items of a list that changes are what they were if their names are, and what they were is not judged anew.
func TestItemsStay(t *testing.T) {
	changed := func(old *resourcev1.ResourceClaimTemplate, to func(*resourcev1.DeviceClaim)) (got []string) {
		k := find(t, "resourceclaimtemplates")
		k.Rules.Default(old)
		now := old.DeepCopy()
		to(&now.Spec.Spec.Devices)
		for _, e := range registrytest.Replace(k, "", now, old) {
			got = append(got, strings.TrimPrefix(e.Field, "spec.spec.devices."))
		}
		return got
	}
	for name, tt := range map[string]struct {
		old  func(*resourcev1.ResourceClaim)
		to   func(*resourcev1.DeviceClaim)
		want []string
	}{
		// What is declared comes last, behind the immutable spec.
		"the first request stays": {
			request(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[1].FirstAvailable[0].Name = "c"; d.Constraints = nil },
			[]string{"requests[0].exactly.allocationMode", "spec"},
		},
		"its mode stays": {
			request(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[0].Exactly.Selectors = nil },
			[]string{"requests[0].exactly.allocationMode", "spec"},
		},
		"another name": {
			request(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" }),
			func(d *resourcev1.DeviceClaim) {
				d.Requests[0].Name, d.Constraints, d.Config = "x", nil, nil
			},
			[]string{"spec", "requests[0].exactly.allocationMode"},
		},
		"another mode": {
			request(func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[0].Exactly.AllocationMode = "None" },
			[]string{"spec", "requests[0].exactly.allocationMode"},
		},
		"the class of an alternative stays": {
			sub(func(s *resourcev1.DeviceSubRequest) { s.DeviceClassName = "A" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[1].FirstAvailable[0].Selectors = selecting("true") },
			[]string{"requests[1].firstAvailable[0].deviceClassName", "spec"},
		},
		"another class": {
			sub(func(s *resourcev1.DeviceSubRequest) { s.DeviceClassName = "A" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[1].FirstAvailable[0].DeviceClassName = "B" },
			[]string{"spec", "requests[1].firstAvailable[0].deviceClassName"},
		},
		"the mode of an alternative stays": {
			sub(func(s *resourcev1.DeviceSubRequest) { s.AllocationMode = "Some" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[1].FirstAvailable[0].Selectors = selecting("true") },
			[]string{"requests[1].firstAvailable[0].allocationMode", "spec"},
		},
		"another mode of an alternative": {
			sub(func(s *resourcev1.DeviceSubRequest) { s.AllocationMode = "Some" }),
			func(d *resourcev1.DeviceClaim) { d.Requests[1].FirstAvailable[0].AllocationMode = "None" },
			[]string{"spec", "requests[1].firstAvailable[0].allocationMode"},
		},
		"an alternative in place of a request": {
			func(*resourcev1.ResourceClaim) {},
			func(d *resourcev1.DeviceClaim) {
				d.Requests[0].Exactly, d.Requests[0].FirstAvailable = nil, d.Requests[1].FirstAvailable
				d.Requests[0].FirstAvailable[0].AllocationMode = "Some"
				d.Requests = d.Requests[:1]
				d.Constraints[0].Requests = nil
			},
			[]string{"spec", "requests[0].firstAvailable[0].allocationMode"},
		},
		"too many selectors": {
			func(*resourcev1.ResourceClaim) {},
			func(d *resourcev1.DeviceClaim) {
				d.Requests[0].Exactly.Selectors = slices.Repeat(selecting("true"), 33)
				d.Requests[1].FirstAvailable[0].Selectors = slices.Repeat(selecting("true"), 33)
			},
			[]string{"spec", "requests[0].exactly.selectors", "requests[1].firstAvailable[0].selectors"},
		},
		"tolerations": {
			func(*resourcev1.ResourceClaim) {},
			func(d *resourcev1.DeviceClaim) {
				d.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: "x"}}
				d.Requests[1].FirstAvailable[0].Tolerations = []resourcev1.DeviceToleration{{Operator: "x"}}
			},
			[]string{"spec", "requests[0].exactly.tolerations[0].operator", "requests[1].firstAvailable[0].tolerations[0].operator"},
		},
	} {
		c := claim()
		tt.old(c)
		if got := changed(template(c), tt.to); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestStatusStays: what is declared of a claim's status is not said of what stays.
func TestStatusStays(t *testing.T) {
	k := find(t, "resourceclaims")
	sharing := func(id string) *resourcev1.ResourceClaim {
		c := allocated()
		c.Status.Allocation.Devices.Results[0].ShareID, c.Status.Devices[0].ShareID = new(types.UID(id)), new(id)
		return c
	}
	// more adds data to the state of a device, and compares what that is refused with.
	more := func(old *resourcev1.ResourceClaim, want ...string) {
		t.Helper()
		now := old.DeepCopy()
		now.Status.Devices[0].Data = &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
		var got []string
		for _, e := range registrytest.Replace(k, "status", now, old) {
			got = append(got, e.Error())
		}
		if !slices.Equal(got, want) {
			t.Errorf("refused with %q, want %q", got, want)
		}
	}
	const at = `status.devices[0].shareID: Invalid value: `
	const form = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
	more(sharing(share))
	more(sharing("x"), at+`"x": error validating uid: invalid UUID length: 1`)
	for _, id := range []string{strings.ToUpper(share), strings.ReplaceAll(share, "-", "")} {
		more(sharing(id), at+`"`+id+`": `+form)
	}
	registrytest.Update(t, k, "status", sharing(share), []claimChange{{Name: "another share", To: func(c *resourcev1.ResourceClaim) {
		c.Status.Devices[0].ShareID = new("x")
	}, Refused: []string{
		`status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"pool","Device":"gpu-0","ShareID":"x"}: must be an allocated device in the claim`,
		at + `"x": must be a lowercase UUID in 8-4-4-4-12 format`}}})
	wide := func(name, address int) *resourcev1.ResourceClaim {
		c := allocated()
		c.Status.Devices[0].NetworkData = &resourcev1.NetworkDeviceData{InterfaceName: repeat(name), HardwareAddress: repeat(address)}
		return c
	}
	const network = `status.devices[0].networkData.`
	registrytest.Update(t, k, "status", wide(1, 1), []claimChange{{Name: "no network", To: func(c *resourcev1.ResourceClaim) {
		c.Status.Devices[0].NetworkData = nil
	}}})
	gone := allocated()
	gone.Status.Allocation.Devices.Results[1].Request = "gone"
	more(gone)
	more(wide(256, 128))
	more(wide(257, 129), network+`interfaceName: Too long: may not be more than 256 bytes`, network+`hardwareAddress: Too long: may not be more than 128 bytes`)
}
