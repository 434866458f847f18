package podspec_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
)

// TestAsUpstream compares the results of defaulting and validating pods with those of the API server of Kubernetes
// 1.37.1, as recorded by the module conformance/validation.
func TestAsUpstream(t *testing.T) {
	file, err := os.Open("testdata/upstream.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<24)
	n := 0
	for ; lines.Scan() && !t.Failed(); n++ {
		var c struct {
			View               string
			Old, Object        *corev1.Pod
			Defaulted, Dropped *corev1.Pod
			Errors             []string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		var errs field.ErrorList
		pod := c.Object.DeepCopy()
		if c.View == "" {
			podspec.DefaultPod(pod)
			as(t, "defaulted", pod, c.Defaulted, c.Object)
			was := pod.DeepCopy()
			podspec.DropPod(pod, nil)
			as(t, "dropped", pod, c.Dropped, was)
			errs = podspec.ValidateCreate(pod)
		} else {
			errs = map[string]func(pod, old *corev1.Pod) field.ErrorList{
				"update": podspec.ValidateUpdate, "status": podspec.ValidateStatusUpdate,
				"ephemeral": podspec.ValidateEphemeralContainersUpdate, "resize": podspec.ValidateResize,
			}[c.View](pod, c.Old)
			podspec.DropPod(pod, c.Old)
			as(t, "dropped", pod, c.Dropped, c.Object)
		}
		var got []string
		for _, err := range errs {
			got = append(got, string(err.Type)+" "+err.Error())
		}
		slices.Sort(got)
		slices.Sort(c.Errors)
		if !slices.Equal(got, c.Errors) {
			t.Errorf("%s refused with\n\t%q\nupstream\n\t%q\n%s", c.View, got, c.Errors, lines.Text())
		}
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Errorf("%d cases: %v", n, err)
	}
}

// as compares a pod with upstream's result; if none is recorded, that is the original.
func as(t *testing.T, what string, got, want, was *corev1.Pod) {
	t.Helper()
	if want == nil {
		want = was
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s:\n%+v\nupstream:\n%+v", what, got, want)
	}
}
