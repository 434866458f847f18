package core_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestQuotaScopes: a quota may only limit resources that can be counted within its scopes.
func TestQuotaScopes(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "resourcequotas")
	quota := func(scope corev1.ResourceQuotaScope, names ...corev1.ResourceName) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "ns"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
		if scope != "" {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{scope}
		}
		for _, name := range names {
			q.Spec.Hard[name] = resource.MustParse("1")
		}
		return q
	}
	const unsupported = "unsupported scope applied to resource"
	compute := []corev1.ResourceName{"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
	for name, tt := range map[string]struct {
		quota *corev1.ResourceQuota
		want  string // the message of each error
	}{
		"no scope":              {quota("", append(compute, "services")...), ""},
		"terminating":           {quota("Terminating", compute...), ""},
		"terminating, services": {quota("Terminating", "services"), unsupported},
		"not best effort":       {quota("NotBestEffort", compute...), ""},
		"of a class":            {quota("PriorityClass", compute...), ""},
		"of a class, storage":   {quota("PriorityClass", "requests.storage"), unsupported},
		"best effort":           {quota("BestEffort", "pods"), ""},
		"best effort, cpu":      {quota("BestEffort", "cpu"), unsupported},
		"volumes":               {quota("VolumeAttributesClass", "persistentvolumeclaims", "requests.storage"), ""},
		"volumes, pods":         {quota("VolumeAttributesClass", "pods"), unsupported},
		"unknown":               {quota("Monday", "pods"), "unsupported scope"},
	} {
		var got []string
		for _, err := range k.Rules.Validate(tt.quota) {
			got = append(got, err.Detail)
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestSecretSize(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "secrets")
	secret := func(sizes ...int) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
		for i, size := range sizes {
			s.Data[string(rune('a'+i))] = make([]byte, size)
		}
		return s
	}
	if errs := k.Rules.Validate(secret(1<<19, 1<<19)); len(errs) > 0 {
		t.Errorf("the largest: %v", errs)
	}
	if errs := k.Rules.Validate(secret(1<<19, 1<<19+1)); len(errs) != 1 || errs[0].Error() != "data: Too long: may not be more than 1048576 bytes" {
		t.Errorf("one more: %v", errs)
	}
	// An update without a type keeps the old one.
	old := secret(1)
	old.Type = "example.com/x"
	next := secret(1)
	next.Type = ""
	if k.Rules.PrepareUpdate(t.Context(), next, old); next.Type != old.Type {
		t.Errorf("a secret without a type became %q", next.Type)
	}
}

func TestAffinityDefaults(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "services")
	config := func(seconds *int32) *corev1.SessionAffinityConfig {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: seconds}}
	}
	for name, tt := range map[string]struct {
		affinity, want corev1.ServiceAffinity
		config, left   *corev1.SessionAffinityConfig
	}{
		"nothing":               {"", "None", nil, nil},
		"a timeout of nothing":  {"", "None", config(new(int32(5))), nil},
		"none":                  {"None", "None", config(new(int32(5))), nil},
		"clients":               {"ClientIP", "ClientIP", config(new(int32(5))), config(new(int32(5)))},
		"clients, by default":   {"ClientIP", "ClientIP", nil, config(new(int32(10800)))},
		"clients, empty config": {"ClientIP", "ClientIP", &corev1.SessionAffinityConfig{}, config(new(int32(10800)))},
		"clients, no timeout":   {"ClientIP", "ClientIP", config(nil), config(new(int32(10800)))},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{SessionAffinity: tt.affinity, SessionAffinityConfig: tt.config}}
		k.Rules.Default(svc)
		if svc.Spec.SessionAffinity != tt.want || !reflect.DeepEqual(svc.Spec.SessionAffinityConfig, tt.left) {
			t.Errorf("%s: %s %+v", name, svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig)
		}
	}
	for name, tt := range map[string]struct {
		affinity corev1.ServiceAffinity
		config   *corev1.SessionAffinityConfig
		want     []string
	}{
		"none":              {"None", nil, nil},
		"none with more":    {"None", config(new(int32(5))), []string{"spec.sessionAffinityConfig: Forbidden: must not be set when session affinity is None"}},
		"clients":           {"ClientIP", config(new(int32(1))), nil},
		"clients for a day": {"ClientIP", config(new(int32(86400))), nil},
		"too long":          {"ClientIP", config(new(int32(86401))), []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400"}},
		"no time":           {"ClientIP", config(new(int32(0))), []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400"}},
		"no config":         {"ClientIP", nil, []string{"spec.sessionAffinityConfig: Required value: when session affinity type is ClientIP"}},
		"no clients":        {"ClientIP", &corev1.SessionAffinityConfig{}, []string{"spec.sessionAffinityConfig.clientIP: Required value: when session affinity type is ClientIP"}},
		"no timeout":        {"ClientIP", config(nil), []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Required value: when session affinity type is ClientIP"}},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		k.Rules.Default(svc)
		svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig = tt.affinity, tt.config
		var got []string
		for _, err := range k.Rules.Validate(svc) {
			if text := err.Error(); strings.Contains(text, "essionAffinity") {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestEndpointRules(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "endpoints")
	good := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "ns"}, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "h", NodeName: new("n")}}, Ports: []corev1.EndpointPort{{Port: 80, AppProtocol: new("http")}},
	}}}
	registrytest.Create(t, k, good, []registrytest.Change[*corev1.Endpoints]{
		{Name: "a bad host, node and protocol", To: func(e *corev1.Endpoints) {
			e.Subsets[0].Addresses[0].Hostname, e.Subsets[0].Addresses[0].NodeName, e.Subsets[0].Ports[0].AppProtocol = "a.b", new("N"), new("/x")
		}, Refused: []string{
			`subsets[0].addresses[0].hostname: Invalid value: "a.b": must not contain dots`,
			`subsets[0].addresses[0].nodeName: Invalid value: "N": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`subsets[0].ports[0].appProtocol: Invalid value: "/x": prefix part must be non-empty`}},
	})
}

// TestEventSeries: a series of events is the same in both versions.
func TestEventSeries(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "events")
	last := metav1.NewMicroTime(time.Unix(7, 0))
	stored := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "ns"}, Series: &corev1.EventSeries{Count: 5, LastObservedTime: last}}
	for _, v := range k.Also {
		served, ok := convert(t, v.FromStored, stored).(*eventsv1.Event)
		if !ok {
			continue
		}
		if served.Series == nil || served.Series.Count != 5 || !served.Series.LastObservedTime.Equal(&last) {
			t.Errorf("served as %+v", served.Series)
		}
		if back := convert(t, v.ToStored, served).(*corev1.Event); !reflect.DeepEqual(back.Series, stored.Series) {
			t.Errorf("stored as %+v", back.Series)
		}
	}
	for _, v := range k.Older {
		old, ok := v.New().(*eventsv1.Event)
		if !ok {
			continue
		}
		old.Series = &eventsv1.EventSeries{Count: 5, LastObservedTime: last}
		if got := v.ToStored(old).(*corev1.Event); !reflect.DeepEqual(got.Series, stored.Series) {
			t.Errorf("stored as %+v", got.Series)
		}
	}
}

// TestNodeConfigSource: a reference to a configuration names a config map, in a status a certain version of
// one.
func TestNodeConfigSource(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "nodes")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Config: &corev1.NodeConfigStatus{}}}
	source := func(ref *corev1.ConfigMapNodeConfigSource) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Config = &corev1.NodeConfigStatus{Assigned: &corev1.NodeConfigSource{ConfigMap: ref}}
		}
	}
	const at = "status.config.assigned"
	registrytest.Update(t, k, "status", node, []registrytest.Change[*corev1.Node]{
		{Name: "good", To: source(&corev1.ConfigMapNodeConfigSource{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "1", KubeletConfigKey: "k"})},
		{Name: "nothing", To: source(nil), Refused: []string{at + `: Invalid value: {"ConfigMap":null}: exactly one reference subfield must be non-nil`}},
		{Name: "empty", To: source(&corev1.ConfigMapNodeConfigSource{}), Refused: []string{
			at + ".configMap.uid: Required value", at + ".configMap.resourceVersion: Required value", at + ".configMap.namespace: Required value",
			at + ".configMap.name: Required value", at + ".configMap.kubeletConfigKey: Required value"}},
		{Name: "bad", To: source(&corev1.ConfigMapNodeConfigSource{Namespace: "a.b", Name: "..", UID: "u", ResourceVersion: "1", KubeletConfigKey: ".."}), Refused: []string{
			at + `.configMap.namespace: Invalid value: "a.b": must not contain dots`,
			at + `.configMap.name: Invalid value: "..": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			at + `.configMap.kubeletConfigKey: Invalid value: "..": must not be '..'`}},
	})
}

func convert(t *testing.T, conversion func(context.Context, registry.Object) (registry.Object, error), obj registry.Object) registry.Object {
	t.Helper()
	out, err := conversion(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
