package core_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

const (
	notKey = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
	frozen = "Forbidden: field is immutable when `immutable` is set"
)

func named() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "ns"} }

func TestConfigMap(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "configmaps")
	type change = registrytest.Change[*corev1.ConfigMap]
	good := &corev1.ConfigMap{ObjectMeta: named(), Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {0}}}
	changes := []change{
		{Name: "empty", To: func(cm *corev1.ConfigMap) { cm.Data, cm.BinaryData = nil, nil }},
		{Name: "bad keys", To: func(cm *corev1.ConfigMap) { cm.Data["a b"], cm.BinaryData[".."] = "", nil }, Refused: []string{
			`data[a b]: Invalid value: "a b": ` + notKey,
			`binaryData[..]: Invalid value: "..": must not be '..'`}},
		{Name: "key in both", To: func(cm *corev1.ConfigMap) { cm.Data["b"] = "" }, Refused: []string{
			`data[b]: Invalid value: "b": duplicate of key present in binaryData`}},
		{Name: "at the limit", To: func(cm *corev1.ConfigMap) { cm.Data["a"] = strings.Repeat("x", corev1.MaxSecretSize-1) }},
		{Name: "too large", To: func(cm *corev1.ConfigMap) { cm.Data["a"] = strings.Repeat("x", corev1.MaxSecretSize) }, Refused: []string{
			`[]: Too long: may not be more than 1048576 bytes`}},
	}
	registrytest.Create(t, k, good, changes)
	registrytest.Update(t, k, "", good, append(changes, change{Name: "freeze", To: func(cm *corev1.ConfigMap) { cm.Immutable = new(true) }}))
	ice := good.DeepCopy()
	ice.Immutable = new(true)
	registrytest.Update(t, k, "", ice, []change{
		{Name: "labels", To: func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"a": "b"} }},
		{Name: "thaw", To: func(cm *corev1.ConfigMap) { cm.Immutable = nil }, Refused: []string{`immutable: ` + frozen}},
		{Name: "data", To: func(cm *corev1.ConfigMap) { cm.Data["a"], cm.BinaryData = "2", nil }, Refused: []string{
			`data: ` + frozen, `binaryData: ` + frozen}},
	})
	empty := &corev1.ConfigMap{ObjectMeta: named(), Immutable: new(true)}
	if registrytest.Prepare(k, empty); empty.Data == nil {
		t.Error("data is nil")
	}
	// An object that was just stored has no empty maps.
	bare := &corev1.ConfigMap{ObjectMeta: named(), Immutable: new(true)}
	if errs := k.Rules.ValidateUpdate(empty, bare); len(errs) > 0 {
		t.Errorf("no data against empty data: %v", errs)
	}
}

func TestSecret(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "secrets")
	type change = registrytest.Change[*corev1.Secret]
	good := &corev1.Secret{ObjectMeta: named(), Data: map[string][]byte{"a": []byte("1")}}
	typed := func(name corev1.SecretType, data map[string]string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Type, s.StringData = name, data }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "unknown type", To: typed("example.com/mine", nil)},
		{Name: "bad key", To: func(s *corev1.Secret) { s.Data["/"] = nil }, Refused: []string{
			`data[/]: Invalid value: "/": ` + notKey}},
		{Name: "too large", To: func(s *corev1.Secret) { s.Data["a"] = make([]byte, corev1.MaxSecretSize+1) }, Refused: []string{
			`data: Too long: may not be more than 1048576 bytes`}},
		{Name: "account token", To: typed(corev1.SecretTypeServiceAccountToken, nil), Refused: []string{
			`metadata.annotations[kubernetes.io/service-account.name]: Required value`}},
		{Name: "account token of an account", To: func(s *corev1.Secret) {
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
		}},
		{Name: "dockercfg", To: typed(corev1.SecretTypeDockercfg, nil), Refused: []string{`data[.dockercfg]: Required value`}},
		{Name: "dockercfg of what", To: typed(corev1.SecretTypeDockercfg, map[string]string{".dockercfg": "x"}), Refused: []string{
			`data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value`}},
		{Name: "docker config", To: typed(corev1.SecretTypeDockerConfigJson, map[string]string{".dockerconfigjson": "{}"})},
		{Name: "docker config missing", To: typed(corev1.SecretTypeDockerConfigJson, nil), Refused: []string{
			`data[.dockerconfigjson]: Required value`}},
		{Name: "basic auth", To: typed(corev1.SecretTypeBasicAuth, map[string]string{"password": ""})},
		{Name: "basic auth of nobody", To: typed(corev1.SecretTypeBasicAuth, nil), Refused: []string{
			`data[username]: Required value`, `data[password]: Required value`}},
		{Name: "ssh", To: typed(corev1.SecretTypeSSHAuth, map[string]string{"ssh-privatekey": ""}), Refused: []string{
			`data[ssh-privatekey]: Required value`}},
		{Name: "tls", To: typed(corev1.SecretTypeTLS, map[string]string{"tls.crt": ""}), Refused: []string{
			`data[tls.key]: Required value`}},
	})
	registrytest.Update(t, k, "", good, []change{
		{Name: "no type keeps the old type", To: func(s *corev1.Secret) { s.Type = "" }},
		{Name: "type", To: func(s *corev1.Secret) { s.Type = "mine" }, Refused: []string{
			`type: Invalid value: "mine": field is immutable`}},
	})
	ice := good.DeepCopy()
	ice.Immutable = new(true)
	registrytest.Update(t, k, "", ice, []change{
		{Name: "thaw and change", To: func(s *corev1.Secret) { s.Immutable, s.StringData = new(false), map[string]string{"a": "2"} }, Refused: []string{
			`immutable: ` + frozen, `data: ` + frozen}},
	})
	empty := &corev1.Secret{ObjectMeta: named(), Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	bare := &corev1.Secret{ObjectMeta: named(), Immutable: new(true), Type: corev1.SecretTypeOpaque}
	if errs := k.Rules.ValidateUpdate(empty, bare); len(errs) > 0 {
		t.Errorf("no data against empty data: %v", errs)
	}
}

func TestSecretStringData(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "secrets")
	s := &corev1.Secret{Data: map[string][]byte{"a": []byte("old"), "b": []byte("kept")}, StringData: map[string]string{"a": "new"}}
	registrytest.Prepare(k, s)
	if string(s.Data["a"]) != "new" || string(s.Data["b"]) != "kept" || s.StringData != nil || s.Type != corev1.SecretTypeOpaque {
		t.Errorf("%+v", s)
	}
	if got := k.Fields(s).Get("type"); got != "Opaque" {
		t.Errorf("field type is %q", got)
	}
}

func TestServiceAccount(t *testing.T) {
	k := registrytest.Find(t, core.Kinds(core.Options{}), "serviceaccounts")
	for _, prepare := range []func(*corev1.ServiceAccount){
		func(sa *corev1.ServiceAccount) { registrytest.Prepare(k, sa) },
		func(sa *corev1.ServiceAccount) { registrytest.Replace(k, "", sa, &corev1.ServiceAccount{}) },
	} {
		sa := &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Name: "s", Namespace: "elsewhere", UID: "1"}}}
		if prepare(sa); sa.Secrets[0] != (corev1.ObjectReference{Name: "s"}) {
			t.Errorf("%+v", sa.Secrets)
		}
	}
}
