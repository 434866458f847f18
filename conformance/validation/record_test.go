package validation_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
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

// verdict is the API server's result for a pod.
type verdict struct {
	View               string      `json:"view,omitempty"` // of an update; empty for a create
	Old                *corev1.Pod `json:"old,omitempty"`
	Object             *corev1.Pod `json:"object"`
	Defaulted, Dropped *corev1.Pod `json:",omitempty"` // if it is not the same as before
	Errors             []string    `json:"errors,omitempty"`
}

// rulesOfUpdates are the rules for updates of each view of a pod.
func rulesOfUpdates() map[string]func(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return map[string]func(context.Context, runtime.Object, runtime.Object) field.ErrorList{
		"update": pod.Strategy.ValidateUpdate, "status": pod.StatusStrategy.ValidateUpdate,
		"ephemeral": pod.EphemeralContainersStrategy.ValidateUpdate, "resize": pod.ResizeStrategy.ValidateUpdate,
	}
}

// judge runs the API server's code on the objects of a verdict.
func (v verdict) judge(t *testing.T) verdict {
	if v.View == "" {
		return judgeCreate(t, v.Object)
	}
	return judgeUpdate(t, v.View, v.Object, v.Old)
}

// TestRecorded: the record that podspec's own tests use is what the API server answers.
func TestRecorded(t *testing.T) {
	if *record != "" {
		writeRecord(t)
		return
	}
	file, err := os.Open("../../podspec/testdata/upstream.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for in := json.NewDecoder(data); !t.Failed(); n++ {
		var was verdict
		if err := in.Decode(&was); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		is := was.judge(t)
		for _, errs := range [][]string{is.Errors, was.Errors} {
			slices.Sort(errs) // those of a map come in any order
		}
		if text(t, is) != text(t, was) {
			t.Errorf("recorded\n\t%s\nthe API server now says\n\t%s", text(t, was), text(t, is))
		}
	}
	if n < 1000 {
		t.Errorf("only %d pods are recorded", n)
	}
}

// writeRecord records the smallest pods for which the API server returns an error that no earlier one has.
func writeRecord(t *testing.T) {
	var all []verdict
	for n := range *count {
		f := newFiller(n)
		if n%2 == 0 {
			f.dense /= 3
		}
		all = append(all, judgeCreate(t, randomPod(f)))
		for name := range rulesOfUpdates() {
			p, old := updatedPod(newFiller(n+len(name)*1000), name)
			all = append(all, judgeUpdate(t, name, p, old))
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

func judgeCreate(t *testing.T, p *corev1.Pod) verdict {
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

// updatedPod returns a random pod and the result of a request for one of its views.
func updatedPod(f *filler, view string) (p, old *corev1.Pod) {
	p, old = changedPod(f)
	switch view {
	case "ephemeral":
		f.mutate(reflect.ValueOf(&p.Spec.EphemeralContainers).Elem(), "EphemeralContainers")
	case "resize":
		if n := len(p.Spec.Containers); n > 0 {
			f.mutate(reflect.ValueOf(&p.Spec.Containers[f.IntN(n)].Resources).Elem(), "Resources")
		}
		f.mutate(reflect.ValueOf(&p.Spec.Resources).Elem(), "Resources")
	}
	return p, old
}

func judgeUpdate(t *testing.T, view string, p, old *corev1.Pod) verdict {
	v := verdict{View: view, Old: old, Object: p}
	in, before := internal(t, p), internal(t, old)
	v.Errors = lines(rulesOfUpdates()[view](t.Context(), in, before))
	podutil.DropDisabledPodFields(in, before)
	if dropped := external(t, in); text(t, dropped) != text(t, p) {
		v.Dropped = dropped
	}
	return v
}

// varying matches the parts of an error that depend on the object.
var varying = regexp.MustCompile(`\[[^\]]*\]|"(\\.|[^"\\])*"|\{.*\}|[A-Za-z]+\.[A-Z][A-Za-z]*\{.*`)

// novel chooses verdicts, smallest first, as long as there is room.
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
	const most = 6_000_000 // bytes before compression
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
