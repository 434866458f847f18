package podspec_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
)

// TestGrowth checks that validating twice as much costs about twice as much, in bytes allocated.
func TestGrowth(t *testing.T) {
	for name, fill := range map[string]func(*corev1.PodSpec, int){
		"missing claims": func(s *corev1.PodSpec, i int) {
			s.ResourceClaims = append(s.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprintf("has%d", i)})
			r := &s.Containers[0].Resources
			r.Claims = append(r.Claims, corev1.ResourceClaim{Name: fmt.Sprintf("uses%d", i)})
		},
		"repeated constraints": func(s *corev1.PodSpec, _ int) {
			s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: "k"})
		},
		"containers with one name": func(s *corev1.PodSpec, _ int) { s.Containers = append(s.Containers, corev1.Container{Name: "c"}) },
		"volumes with one name":    func(s *corev1.PodSpec, _ int) { s.Volumes = append(s.Volumes, corev1.Volume{Name: "v"}) },
		"ports with one number": func(s *corev1.PodSpec, _ int) {
			s.Containers[0].Ports = append(s.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 1, HostPort: 1})
		},
		"mounts with one path": func(s *corev1.PodSpec, _ int) {
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, corev1.VolumeMount{MountPath: "/"})
		},
	} {
		cost := func(n int) uint64 {
			spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}
			for i := range n {
				fill(spec, i)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			errs := podspec.ValidateSpec(spec, nil, field.NewPath("spec"), podspec.Options{Pod: true})
			runtime.ReadMemStats(&after)
			if len(errs) < n-1 {
				t.Errorf("%s: %d errors of %d", name, len(errs), n)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		if one, two := cost(2000), cost(4000); two > 3*one {
			t.Errorf("%s: %d bytes, of twice as many %d", name, one, two)
		}
	}
}

// TestClaimRequests: a claim that is used as a whole after its requests is reported once for each of them.
func TestClaimRequests(t *testing.T) {
	spec := &corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{Name: "a"}},
		Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{
			{Name: "a", Request: "x"}, {Name: "a", Request: "y"}, {Name: "a", Request: "x"}, {Name: "a"}, {Name: "a"}, {Name: "a", Request: "z"},
		}}}},
	}
	var got []string
	for _, err := range podspec.ValidateSpec(spec, nil, field.NewPath("spec"), podspec.Options{Pod: true}) {
		if err.Type == field.ErrorTypeDuplicate {
			got = append(got, err.Error())
		}
	}
	const at = "spec.containers[0].resources.claims"
	want := []string{
		at + `[2]: Duplicate value: "a/x"`, at + `[3]: Duplicate value: "a"`, at + `[3]: Duplicate value: "a"`,
		at + `[4]: Duplicate value: "a"`, at + `[5]: Duplicate value: "a"`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
}
