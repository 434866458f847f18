package printers_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// atRandom makes n objects of a kind, from values that matter to printers.
func atRandom(t *testing.T, gvk schema.GroupVersionKind, n int) []runtime.Object {
	t.Helper()
	f := filler{rand.New(rand.NewPCG(*seed, uint64(len(gvk.Kind))))}
	var objects []runtime.Object
	for range n {
		obj, err := legacyscheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		f.fill(reflect.ValueOf(obj).Elem(), "", 0)
		if s, ok := obj.(*corev1.Secret); ok {
			s.StringData = nil // never stored
		}
		objects = append(objects, obj)
	}
	return objects
}

type filler struct{ *rand.Rand }

func (f filler) chance(p float64) bool { return f.Float64() < p }

func pick[T any](f filler, of ...T) T { return of[f.IntN(len(of))] }

// fill sets v, the field of the given name.
func (f filler) fill(v reflect.Value, name string, depth int) {
	if depth > 12 || f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.chance(0.5) {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), name, depth+1)
		}
	case reflect.Struct:
		f.structure(v, depth)
	case reflect.Slice:
		if n := f.IntN(5); v.Type().Elem().Kind() != reflect.Uint8 && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i), name, depth+1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.IntN(4) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, name+"Key", depth+1)
			f.fill(value, name+"Value", depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(f.text(v.Type().Name(), name))
	case reflect.Bool:
		v.SetBool(f.chance(0.5))
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(pick(f, 0, 0, 1, 2, 7, 80, 30000)))
	}
}

func (f filler) structure(v reflect.Value, depth int) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || field.Name == "TypeMeta" {
			continue
		}
		if v.Type() == reflect.TypeFor[corev1.ContainerState]() && !f.chance(0.5) {
			continue // at most one is set, mostly
		}
		if shown, ok := printed(v.Type()); ok && !slices.Contains(shown, field.Name) {
			continue
		}
		f.fill(v.Field(i), field.Name, depth+1)
	}
}

// printed are the fields of large types that may appear in a table.
func printed(t reflect.Type) ([]string, bool) {
	switch t {
	case reflect.TypeFor[metav1.ObjectMeta]():
		return strings.Fields("Name Namespace Labels Annotations CreationTimestamp DeletionTimestamp OwnerReferences"), true
	case reflect.TypeFor[corev1.Container]():
		return strings.Fields("Name Image RestartPolicy"), true
	case reflect.TypeFor[corev1.PodSpec]():
		return strings.Fields("InitContainers Containers NodeName ReadinessGates SchedulingGates"), true
	case reflect.TypeFor[corev1.ContainerStatus]():
		return strings.Fields("Name State LastTerminationState Ready RestartCount Started"), true
	case reflect.TypeFor[corev1.NodeStatus]():
		return strings.Fields("Phase Conditions Addresses NodeInfo"), true
	}
	return nil, false
}

// special sets values of types that are more than their fields.
func (f filler) special(v reflect.Value) bool {
	at := time.Now().Add(-time.Duration(f.Int64N(int64(2 * time.Hour)))).Truncate(time.Second)
	if f.chance(0.3) {
		at = time.Now().Add(-time.Duration(f.Int64N(int64(900 * 24 * time.Hour)))).Truncate(time.Second)
	}
	if f.chance(0.05) {
		at = time.Now().Add(time.Duration(f.Int64N(int64(5 * time.Second)))).Truncate(time.Second) // clocks differ
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if f.chance(0.8) {
			*p = metav1.NewTime(at)
		}
	case *metav1.MicroTime:
		if f.chance(0.6) {
			*p = metav1.NewMicroTime(at)
		}
	case *intstr.IntOrString:
		*p = pick(f, intstr.FromInt32(0), intstr.FromInt32(3), intstr.FromString("25%"), intstr.FromString("x"))
	case *resource.Quantity:
		*p = resource.MustParse(pick(f, "0", "1", "500m", "2Gi"))
	case *runtime.RawExtension:
		p.Raw = []byte(`{"a":1}`)
	default:
		return false
	}
	return true
}

// text returns a string for a field, often one that printers know.
func (f filler) text(typ, name string) string {
	switch {
	case typ == "PodPhase":
		return pick(f, "", "Pending", "Running", "Running", "Succeeded", "Failed", "Unknown", "Other")
	case typ == "PodConditionType" || name == "ConditionType":
		return pick(f, "PodScheduled", "Ready", "Initialized", "ContainersReady", "example.com/gate", "other/gate")
	case typ == "ConditionStatus":
		return pick(f, "True", "True", "False", "Unknown", "")
	case typ == "NodeConditionType":
		return pick(f, "Ready", "Ready", "MemoryPressure")
	case typ == "NodeAddressType":
		return pick(f, "InternalIP", "ExternalIP", "Hostname")
	case typ == "ServiceType":
		return pick(f, "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "")
	case typ == "ContainerRestartPolicy":
		return pick(f, "Always", "Always", "Never", "")
	case typ == "LabelSelectorOperator":
		return pick(f, "In", "NotIn", "Exists", "DoesNotExist", "Wrong")
	case typ == "Protocol":
		return pick(f, "TCP", "UDP", "")
	case name == "APIVersion":
		return pick(f, "v1", "apps/v1", "example.com/v1beta1")
	case name == "Kind":
		return pick(f, "User", "Group", "ServiceAccount", "ReplicaSet", "Pod", "Other", "")
	case name == "Reason":
		return pick(f, "", "", "Completed", "Error", "CrashLoopBackOff", "PodInitializing", "ContainerCreating", "SchedulingGated", "NodeLost", "Evicted")
	case name == "LabelsKey":
		return pick(f, "a", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/", "node-role.kubernetes.io/worker", "kubernetes.io/role")
	case name == "Message":
		return pick(f, "", "  told \n", "\"quoted\" <b>&", "ünïcode\t✓\u2028")
	case name == "Name":
		return pick(f, "a", "b", "c", "app", "init")
	case name == "IP" || name == "PodIP" || name == "IPs" || name == "ClusterIPs":
		return pick(f, "", "10.0.0.1", "10.0.0.2", "fd00::1", "192.168.7.255")
	}
	return pick(f, "", "x", "y", "some-name", "a.b/c", "1,2")
}
