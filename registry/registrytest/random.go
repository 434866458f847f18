package registrytest

import (
	"reflect"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// word returns a string that matters to some rule of some kind.
func word(c randfill.Continue) string {
	words := []string{
		"", "a", "A", "-", "a b", "foo.bar", "example.com/x", "0", "-1", "10%", "101%", "%", "{}", "[]", "{",
		"None", "10.0.0.1", "010.0.0.1", "127.0.0.1", "0.0.0.0", "fd00::1", "::ffff:1.2.3.4", "10.0.0.0/8", "10.0.0.1/8", "fd00::/64",
		"TCP", "UDP", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "ClientIP", "Cluster", "Local",
		"IPv4", "IPv6", "FQDN", "SingleStack", "PreferDualStack", "RequireDualStack", "RollingUpdate", "Recreate",
		"Always", "Never", "NoSchedule", "NoExecute", "In", "Exists", "True", "False", "Normal", "Warning",
		"kubernetes", "Active", "Terminating", "Opaque", "kubernetes.io/tls", "kubernetes.io/dockercfg", "tls.crt",
		"cpu", "memory", "hugepages-2Mi", "system-node-critical", "topology.kubernetes.io/zone",
	}
	return words[c.Intn(len(words))]
}

// fillers returns the functions for types with restricted values.
func fillers() []any {
	return []any{
		func(s *string, c randfill.Continue) { *s = word(c) },
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(t *metav1.Time, c randfill.Continue) {
			if c.Bool() {
				*t = metav1.Unix(c.Int63n(1<<32), 0)
			}
		},
		func(t *metav1.MicroTime, c randfill.Continue) {
			if c.Bool() {
				*t = metav1.NewMicroTime(time.UnixMicro(c.Int63n(1 << 50)))
			}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1<<40)-1<<20, resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(int32(c.Intn(200) - 10))
			if c.Bool() {
				*v = intstr.FromString(word(c))
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(word(c)) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte("{}")) },
		func(n *int32, c randfill.Continue) { *n = int32(c.Intn(1<<17) - 10) },
		func(a *autoscalingv1.HorizontalPodAutoscaler, c randfill.Continue) {
			// Another version tells no more about these fields than whether they have their defaults.
			c.FillNoCustom(a)
			a.Spec.TargetCPUUtilizationPercentage, a.Status.CurrentCPUUtilizationPercentage = new(int32(c.Intn(100))), nil
		},
		func(n *int64, c randfill.Continue) { *n = c.Int63n(1<<40) - 10 },
	}
}

// overwrite changes every value that it can reach.
func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			overwrite(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				overwrite(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			overwrite(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Value{})
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("scribbled")
		}
	case reflect.Bool:
		if v.CanSet() {
			v.SetBool(!v.Bool())
		}
	case reflect.Int32, reflect.Int64:
		if v.CanSet() {
			v.SetInt(v.Int() + 1)
		}
	case reflect.Uint8:
		if v.CanSet() {
			v.SetUint(v.Uint() ^ 1)
		}
	}
}
