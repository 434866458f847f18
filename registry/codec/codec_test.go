package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/registry/codec"
)

func sample() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Labels: map[string]string{"x": "y"}},
		Data:       map[string]string{"k": "<v>&", "and": "&", "less": "<", "more": ">"}, BinaryData: map[string][]byte{"b": {0, 1}, "empty": {}},
	}
}

func TestRoundTrip(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for name, encode := range map[string]func() ([]byte, error){
		"JSON":     func() ([]byte, error) { return codec.JSON(gvk, sample()) },
		"protobuf": func() ([]byte, error) { return codec.Protobuf(gvk, sample()) },
		"stored":   func() ([]byte, error) { return codec.Stored(gvk, sample()) },
	} {
		t.Run(name, func(t *testing.T) {
			data, err := encode()
			if err != nil {
				t.Fatal(err)
			}
			if codec.IsProtobuf(data) != (name != "JSON") {
				t.Errorf("encoded as %q", data)
			}
			got := &corev1.ConfigMap{}
			named, err := codec.Decode(data, got)
			if err != nil || named != gvk {
				t.Fatalf("decode: %v %v", named, err)
			}
			if diff := cmp.Diff(sample(), got); diff != "" {
				t.Error(diff)
			}
			// Upstream's own decoder reads it, too.
			other, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			other.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(""))
			other.(*corev1.ConfigMap).TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(sample(), other); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNotProtobuf(t *testing.T) {
	custom := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}}}
	if _, err := codec.Raw(custom); !errors.Is(err, codec.ErrNotProtobuf) {
		t.Errorf("raw: %v", err)
	}
	if err := codec.DecodeRaw(nil, custom); !errors.Is(err, codec.ErrNotProtobuf) {
		t.Errorf("decode: %v", err)
	}
	if _, _, err := codec.Open([]byte("{}")); err == nil {
		t.Error("JSON was taken for protobuf")
	}
}

// Canonical changes an object just as storage does.
func TestCanonical(t *testing.T) {
	now := metav1.NewTime(time.Unix(7, 5))
	for name, test := range map[string]struct{ obj, empty runtime.Object }{
		"lists and maps": {
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Finalizers: []string{}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{}}}},
			&rbacv1.Role{},
		},
		"bytes": {&corev1.Secret{Data: map[string][]byte{"a": {}}}, &corev1.Secret{}},
		"times": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: corev1.PodStatus{StartTime: &now}}, &corev1.Pod{},
		},
		"pointers": {&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{}}}}}, &corev1.Pod{}},
	} {
		t.Run(name, func(t *testing.T) {
			codec.Canonical(test.obj)
			raw, err := codec.Raw(test.obj)
			if err != nil {
				t.Fatal(err)
			}
			if err := codec.DecodeRaw(raw, test.empty); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.empty, test.obj); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithType(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	for body, want := range map[string]string{
		`{}`:      `{"kind":"Pod","apiVersion":"v1"}`,
		`{ }`:     `{"kind":"Pod","apiVersion":"v1" }`,
		`{"a":1}`: `{"kind":"Pod","apiVersion":"v1","a":1}`,
	} {
		if got := codec.WithType(gvk, []byte(body)); string(got) != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for _, encode := range []func() ([]byte, error){
		func() ([]byte, error) { return codec.JSON(gvk, sample()) },
		func() ([]byte, error) { return codec.Protobuf(gvk, sample()) },
	} {
		data, err := encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte("k8s\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &corev1.ConfigMap{}
		if _, err := codec.Decode(data, obj); err != nil {
			return
		}
		// A decoded object is encoded and decoded as the same.
		codec.Canonical(obj)
		again := &corev1.ConfigMap{}
		written, err := codec.Protobuf(gvk, obj)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := codec.Decode(written, again); err != nil {
			t.Fatal(err)
		}
		second, err := codec.Protobuf(gvk, again)
		if err != nil || !bytes.Equal(written, second) {
			t.Errorf("%q became %q: %v", written, second, err)
		}
	})
}

// A message written in pieces has the same envelope as one written whole.
func TestAround(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMapList")
	for _, size := range []int{1, 127, 128, 1 << 20} {
		raw := bytes.Repeat([]byte("x"), size)
		want, err := codec.Envelope(gvk, raw)
		if err != nil {
			t.Fatal(err)
		}
		before, after, err := codec.Around(gvk, size)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Concat(before, raw, after); !bytes.Equal(got, want) {
			t.Errorf("%d bytes: the envelopes differ", size)
		}
	}
}

// An unstructured object is left without a type, too.
func TestDecodeUnstructured(t *testing.T) {
	u := &unstructured.Unstructured{}
	gvk, err := codec.Decode([]byte(`{"kind":"Backup","apiVersion":"example.com/v1","spec":{"n":1}}`), u)
	if err != nil || gvk.String() != "example.com/v1, Kind=Backup" || fmt.Sprint(u.Object) != "map[spec:map[n:1]]" {
		t.Errorf("%v, %v, %v", gvk, u.Object, err)
	}
}
