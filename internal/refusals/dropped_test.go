package refusals_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podspec"
)

// fill sets every field of an API value, with one entry in each list, but one per source in lists of volumes and of
// projections, whose entries have one source each.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case []corev1.Volume, []corev1.VolumeProjection:
		sources := reflect.New(v.Type().Elem()).Elem()
		if sources.Type() == reflect.TypeFor[corev1.Volume]() {
			sources = sources.FieldByName("VolumeSource")
		}
		for i := range sources.NumField() {
			entry := reflect.New(v.Type().Elem()).Elem()
			if name := entry.FieldByName("Name"); name.IsValid() {
				fill(name)
			}
			fill(entry.FieldByName(sources.Type().Field(i).Name))
			v.Set(reflect.Append(v, entry))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(field)
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	}
}

// kept adds the fields that are set in a value of the core API.
func kept(v reflect.Value, fields map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			kept(v.Elem(), fields)
		}
	case reflect.Slice:
		for i := range v.Len() {
			kept(v.Index(i), fields)
		}
	case reflect.Struct:
		if v.Type().PkgPath() != "k8s.io/api/core/v1" {
			return
		}
		for field, value := range v.Fields() {
			name := v.Type().Name() + "." + field.Name
			if !value.IsZero() {
				fields[name] = true
			}
			kept(value, fields)
		}
	}
}

// TestDroppedFieldsAreNotKept: the API keeps every field of a pod except those that fields.txt lists as dropped.
func TestDroppedFieldsAreNotKept(t *testing.T) {
	verdicts, pod, fields := verdicts(t), &corev1.Pod{}, map[string]bool{}
	fill(reflect.ValueOf(&pod.Spec).Elem())
	podspec.DropPod(pod, nil)
	kept(reflect.ValueOf(pod.Spec), fields)
	for name, v := range verdicts {
		ofPod := false
		fieldsOf(reflect.TypeFor[corev1.PodSpec](), func(n string) bool {
			ofPod = ofPod || n == name
			return verdicts[n].kind == "acted" || verdicts[n].kind == "through"
		})
		if dropped := v.kind == "dropped"; ofPod && dropped == fields[name] {
			t.Errorf("%s is kept: %v", name, fields[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused())) {
		if !fields[name] {
			t.Errorf("%s is refused, but dropped before", name)
		}
	}
}

// TestDroppedFieldsOfNodes is TestDroppedFieldsAreNotKept for nodes.
func TestDroppedFieldsOfNodes(t *testing.T) {
	inCluster(t, func(a *asker) {
		asked := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
		asked.Spec.ConfigSource, asked.Spec.PodPreemptionPolicy = &corev1.NodeConfigSource{}, &corev1.NodePodPreemptionPolicy{}
		made, err := a.cs.CoreV1().Nodes().Create(a.t.Context(), asked, metav1.CreateOptions{})
		a.check(err)
		if made.Spec.ConfigSource != nil || made.Spec.PodPreemptionPolicy != nil {
			t.Errorf("the node has %v and %v", made.Spec.ConfigSource, made.Spec.PodPreemptionPolicy)
		}
	})
}
