package kinds_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// word returns a string that some rule accepts or rejects specially.
func word(r *rand.Rand) string {
	return pick(r, "", "a", "A", "foo", "foo.bar", "foo/bar", "example.com/x", "-", "a b", "under_score",
		strings.Repeat("x", 64), strings.Repeat("x", 129), strings.Repeat("x", 300), strings.Repeat("n", 1025),
		"None", "10.0.0.1", "10.0.0.2", "010.0.0.1", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "::1", "fd00::1", "fd00::2",
		"2001:db8::1", "::ffff:1.2.3.4", "not-an-ip", "10.0.0.0/8", "10.0.0.0/16", " 10.0.0.0/8 ", "10.0.0.1/8", "fd00::/64",
		"::ffff:1.2.3.0/120", "10.0.0.0/8,192.168.0.0/16", "bad,10.0.0.0/8",
		"10%", "0%", "100%", "101%", "-5%", "99999999999999999999%", "%", "5", "-1",
		"TCP", "UDP", "SCTP", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "ClientIP", "Cluster", "Local",
		"IPv4", "IPv6", "FQDN", "SingleStack", "PreferDualStack", "RequireDualStack", "PreferClose", "PreferSameZone", "VIP", "Proxy",
		"Recreate", "RollingUpdate", "Always", "Never", "NoSchedule", "NoExecute", "PreferNoSchedule",
		"kubernetes", "orphan", "Active", "Terminating", "Opaque", "kubernetes.io/service-account-token", "kubernetes.io/dockercfg",
		"kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth", "kubernetes.io/tls",
		".dockercfg", ".dockerconfigjson", "username", "password", "ssh-privatekey", "tls.crt", "tls.key",
		"kubernetes.io/service-account.name", "Normal", "Warning", "default", "kube-system", "ns", "In", "NotIn", "Exists", "DoesNotExist",
		"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "IfHealthyBudget", "AlwaysAllow", "PreemptLowerPriority",
		"system-node-critical", "system-foo", "OldestEmulationVersion", "True", "False", "Unknown",
		"topology.kubernetes.io/zone", "kubernetes.io/hostname", "pods", "cpu", "memory", "requests.cpu", "nvidia.com/gpu", "hugepages-2Mi",
		"gpu.example.com", "gpu", "gpu/big", "big", "pool-0", "a/b", "example.com/model", "model", "1.2.3", "1.2", "NoExecute", "None", "Equal", "Exists", "All",
		"ExactCount", "FromClaim", "FromClass", "123e4567-e89b-12d3-a456-426614174000", "123E4567-e89b-12d3-a456-426614174000", "10.9.8.0/24", "10.9.8.7/24",
		"ByUser", "ByNamespace", "User", "Group", "ServiceAccount", "get", "watch", "proxy", "/", "/healthz", "/a//b", "/a*", "/*/*", "/a/*",
		"Exempt", "Limited", "Queue", "Reject", "Dangling", "exempt", "catch-all", "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares",
		"apf.kubernetes.io/autoupdate-spec", "Fail", "Ignore", "Exact", "Equivalent", "Deny", "Warn", "Audit", "Allow", "CREATE", "DELETE", "*", "*/*", "pods/*", "Namespaced",
		"JSONPatch", "ApplyConfiguration", "IfNeeded", "Invalid", "Forbidden", "apps/v1", "a/b/c", "/v1", "a/", "spec.validations[0].expression",
		"MyFeature", "MyFeature/sub", "lower", "{}", "[]", "null", "{", `{"a":1}`,
		`[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule"}]`, `{"preferAvoidPods":[{"podSignature":{}}]}`,
		"service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints",
		"service.beta.kubernetes.io/load-balancer-source-ranges", "scheduler.alpha.kubernetes.io/taints",
		"scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated.deployment.rollback.to")
}

func number(r *rand.Rand) int64 {
	return pick[int64](r, -1, 0, 1, 2, 3, 5, 80, 443, 600, 10_000, 10_001, 65535, 65536, 86400, 86401, 1_000_000_000, 1_000_000_001, 2_000_000_000, 2_000_001_000)
}

// mutate changes something in v.
func mutate(r *rand.Rand, v reflect.Value) {
	if mutateSpecial(r, v.Addr().Interface()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if n := v.NumField(); n > 0 {
			mutate(r, v.Field(r.IntN(n)))
		}
	case reflect.String:
		v.SetString(word(r))
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(number(r))
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			if r.IntN(4) > 0 {
				mutate(r, v.Elem())
			}
		case r.IntN(5) == 0:
			v.SetZero()
		default:
			mutate(r, v.Elem())
		}
	case reflect.Slice:
		mutateSlice(r, v)
	case reflect.Map:
		mutateMap(r, v)
	}
}

// mutateSpecial changes values whose fields cannot be chosen freely.
func mutateSpecial(r *rand.Rand, at any) bool {
	switch x := at.(type) {
	case *metav1.Time:
		*x = pick(r, metav1.Time{}, metav1.Unix(1e9, 0), metav1.Unix(2e9, 0))
	case *metav1.MicroTime:
		*x = pick(r, metav1.MicroTime{}, metav1.NewMicroTime(time.Unix(1e9, 0)), metav1.NewMicroTime(time.Unix(1e9, 5)))
	case *resource.Quantity:
		*x = resource.MustParse(pick(r, "0", "1", "-1", "1500m", "10Gi", "0.0001"))
	case *intstr.IntOrString:
		*x = pick(r, intstr.FromInt32(int32(number(r))), intstr.FromString(word(r)))
	case *runtime.RawExtension:
		x.Raw = nil
		if s := word(r); s != "" {
			x.Raw = []byte(s)
		}
	case *[]byte:
		*x = []byte(word(r))
	case *metav1.ObjectMeta: // the registry handles the rest
		mutateMeta(r, x)
	case *metav1.TypeMeta:
	case *resourcev1.CELDeviceSelector:
		x.Expression = pick(r, append(expressions(), `device.driver == "gpu.example.com"`, "device.attributes[\"a\"].b == 1", "device.nothing")...)
	case *admissionv1.Validation, *admissionv1.AuditAnnotation, *admissionv1.MatchCondition, *admissionv1.Variable,
		*admissionv1.ApplyConfiguration, *admissionv1.JSONPatch:
		mutateExpression(r, reflect.ValueOf(at).Elem())
	default:
		return false
	}
	return true
}

// expressions are of every type that policies use, and some are wrong.
func expressions() []string {
	return []string{
		"true", " true ", "true\n", "object.x == 1", "'text'", "null", "1", "", "  ", "params.x == oldObject.x", "variables.foo == 1", "variables.foo",
		"string(variables.foo)", "authorizer.requestResource.check('get').allowed()", "namespaceObject.metadata.name == 'a'",
		"string(namespaceObject.metadata.name)", "request.userInfo.username", "request.nothing", "1 +", "foo", "object.x.matches('[')",
		"Object{spec: Object.spec{replicas: 1}}", "[JSONPatch{op: 'add', path: '/x', value: 1}]", " [JSONPatch{op: 'add', path: '/x'}] ",
		"JSONPatch{op: 'add'}", "object.x.?y.orValue('a') + 'b'", "optional.none()", "'a' + " + strings.Repeat("'b' + ", 1000) + "'c'",
	}
}

// mutateExpression changes a field of what has an expression.
func mutateExpression(r *rand.Rand, v reflect.Value) {
	f := v.Field(r.IntN(v.NumField()))
	if name := v.Type().Field(r.IntN(v.NumField())).Name; strings.HasSuffix(name, "Expression") {
		v.FieldByName(name).SetString(pick(r, expressions()...))
		return
	}
	if f.Kind() == reflect.String && r.IntN(4) == 0 {
		f.SetString(pick(r, "a", "foo", "in", "_x9", "two\nlines", " ", "9x"))
		return
	}
	mutate(r, f)
}

// mutateMeta changes metadata that kinds have rules for.
func mutateMeta(r *rand.Rand, meta *metav1.ObjectMeta) {
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	key := pick(r, "a", "kubernetes.io/service-account.name", "deprecated.deployment.rollback.to",
		"service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints",
		"service.beta.kubernetes.io/load-balancer-source-ranges",
		"scheduler.alpha.kubernetes.io/taints", "scheduler.alpha.kubernetes.io/preferAvoidPods")
	switch {
	case r.IntN(3) == 0:
		delete(meta.Annotations, key)
	case key == "deprecated.deployment.rollback.to": // upstream counts an empty one as a change, though it is dropped
		meta.Annotations[key] = pick(r, "-1", "5")
	default:
		meta.Annotations[key] = word(r)
	}
	if meta.Labels != nil && r.IntN(3) == 0 {
		meta.Labels["a"] = pick(r, "b", "c")
	}
}

func mutateSlice(r *rand.Rand, v reflect.Value) {
	n := v.Len()
	switch kind := r.IntN(6); {
	case kind == 0 && n > 0:
		v.SetZero()
	case kind == 1 && n > 0: // one twice
		v.Set(reflect.Append(v, v.Index(r.IntN(n))))
	case kind == 2 && n > 0: // one less
		i := r.IntN(n)
		v.Set(reflect.AppendSlice(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, n), v.Slice(0, i)), v.Slice(i+1, n)))
	case kind == 3 || n == 0: // one more
		e := reflect.New(v.Type().Elem()).Elem()
		for range 1 + r.IntN(4) {
			mutate(r, e)
		}
		v.Set(reflect.Append(v, e))
	default:
		mutate(r, v.Index(r.IntN(n)))
	}
}

func mutateMap(r *rand.Rand, v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key := reflect.New(v.Type().Key()).Elem()
	key.SetString(word(r))
	if n := v.Len(); n > 0 && r.IntN(2) == 0 {
		i := v.MapRange()
		for first := r.IntN(n) + 1; first > 0; first-- {
			i.Next()
		}
		key.Set(i.Key())
		if r.IntN(2) == 0 {
			v.SetMapIndex(key, reflect.Value{})
			return
		}
	}
	value := reflect.New(v.Type().Elem()).Elem()
	mutate(r, value)
	v.SetMapIndex(key, value)
}
