package validation_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	upstream "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/registry/core/pod"
)

var record = flag.String("record", "", "write what the API server says of random pods into this file, for podspec's own tests")

// verdict is what the API server makes and says of a pod.
type verdict struct {
	View               string      `json:"view,omitempty"` // of an update; empty is a create
	Old                *corev1.Pod `json:"old,omitempty"`
	Object             *corev1.Pod `json:"object"`
	Defaulted, Dropped *corev1.Pod `json:",omitempty"` // if it is not the same as before
	Errors             []string    `json:"errors,omitempty"`
}

// TestRecord records the smallest pods of which the API server says something that it says of none before.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("nothing to record: -record names the file")
	}
	var all []verdict
	for n := range *count {
		f := newFiller(n)
		if n%2 == 0 {
			f.dense /= 3
		}
		all = append(all, recordCreate(t, f))
		for name, judge := range map[string]func(context.Context, runtime.Object, runtime.Object) field.ErrorList{
			"update": pod.Strategy.ValidateUpdate, "status": pod.StatusStrategy.ValidateUpdate,
			"ephemeral": pod.EphemeralContainersStrategy.ValidateUpdate, "resize": pod.ResizeStrategy.ValidateUpdate,
		} {
			all = append(all, recordUpdate(t, newFiller(n+len(name)*1000), name, judge))
		}
	}
	var file bytes.Buffer
	out, err := gzip.NewWriterLevel(&file, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, text := range novel(t, all) {
		kept++
		if _, err := out.Write(append(text, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*record, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d, %d bytes", kept, len(all), file.Len())
}

func recordCreate(t *testing.T, f *filler) verdict {
	p := randomPod(f)
	v := verdict{Object: p}
	made := p.DeepCopy()
	upstream.SetObjectDefaults_Pod(made)
	if !reflect.DeepEqual(made, p) {
		v.Defaulted = made
	}
	in := internal(t, made)
	podutil.DropDisabledPodFields(in, nil)
	if dropped := external(t, in); text(t, dropped) != text(t, made) {
		v.Dropped = dropped
	}
	v.Errors = lines(pod.Strategy.Validate(t.Context(), in))
	return v
}

func recordUpdate(t *testing.T, f *filler, name string, judge func(context.Context, runtime.Object, runtime.Object) field.ErrorList) verdict {
	p, old := changedPod(f)
	switch name {
	case "ephemeral":
		f.mutate(reflect.ValueOf(&p.Spec.EphemeralContainers).Elem(), "EphemeralContainers")
	case "resize":
		if n := len(p.Spec.Containers); n > 0 {
			f.mutate(reflect.ValueOf(&p.Spec.Containers[f.IntN(n)].Resources).Elem(), "Resources")
		}
		f.mutate(reflect.ValueOf(&p.Spec.Resources).Elem(), "Resources")
	}
	v := verdict{View: name, Old: old, Object: p}
	in, before := internal(t, p), internal(t, old)
	v.Errors = lines(judge(t.Context(), in, before))
	podutil.DropDisabledPodFields(in, before)
	if dropped := external(t, in); text(t, dropped) != text(t, p) {
		v.Dropped = dropped
	}
	return v
}

// varying are the parts of an error that tell its objects apart, but not what it says.
var varying = regexp.MustCompile(`\[[^\]]*\]|"(\\.|[^"\\])*"|\{.*\}|[A-Za-z]+\.[A-Z][A-Za-z]*\{.*`)

// novel chooses from the smallest on, as many as there is room for.
func novel(t *testing.T, all []verdict) [][]byte {
	type candidate struct {
		text []byte
		v    *verdict
	}
	var list []candidate
	for i := range all {
		text, err := json.Marshal(all[i])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, candidate{text, &all[i]})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(len(a.text), len(b.text)) })
	seen := map[string]int{}
	var out [][]byte
	const most = 6_000_000 // bytes before they are compressed
	size := 0
	for _, c := range list {
		fresh := false
		look := func(key string, most int) {
			if seen[key]++; seen[key] <= most {
				fresh = true
			}
		}
		for _, e := range c.v.Errors {
			said, _, _ := strings.Cut(varying.ReplaceAllString(e, "_"), "\n")
			look(c.v.View+" "+strings.NewReplacer("initContainers", "containers", "ephemeralContainers", "containers").Replace(said), 1)
		}
		if len(c.v.Errors) == 0 {
			look(c.v.View+" good", 25)
		}
		if c.v.Dropped != nil {
			look(c.v.View+" dropped", 8)
		}
		if fresh && size < most {
			out, size = append(out, c.text), size+len(c.text)
		}
	}
	return out
}
