package serviceaccount_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/serviceaccount"
)

// both calls Admit and Validate, each with a pod of its own, and returns their refusals: other plugins may
// change the pod in between.
func both(t *testing.T, p *serviceaccount.Plugin, pod *corev1.Pod) (admit, validate string) {
	t.Helper()
	told := func(ask func(context.Context, *admission.Request) error) string {
		err := ask(t.Context(), admissiontest.Create(t, pod.DeepCopy()))
		if err == nil {
			return ""
		}
		if !errors.Is(err, admission.ErrForbidden) {
			t.Errorf("%v is not forbidden", err)
		}
		return err.Error()
	}
	return told(p.Admit), told(p.Validate)
}

func sources(s ...corev1.VolumeProjection) func(*corev1.Pod) {
	return volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: s}})
}

// TestMirrorPods: a mirror pod may not refer to secrets or tokens by any field; empty names do not count.
func TestMirrorPods(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{})
	first := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	const secrets, tokens = "a mirror pod may not reference secrets", "a mirror pod may not use ServiceAccountToken volume projections"
	plain := corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "k"}}
	configured := []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
	empty := &corev1.LocalObjectReference{}
	for name, tt := range map[string]struct {
		change  func(*corev1.Pod)
		refusal string
	}{
		"nothing":                    {func(*corev1.Pod) {}, ""},
		"account":                    {account("default"), "a mirror pod may not reference service accounts"},
		"pull secret":                {pull("s"), secrets},
		"pull secret without a name": {pull(""), ""},
		"the second pull secret":     {pull("", "s"), secrets},
		"env":                        {first(func(c *corev1.Container) { c.Env = env(keyOf("s")) }), secrets},
		"env from":                   {first(func(c *corev1.Container) { c.EnvFrom = allOf("s") }), secrets},
		"env without a name":         {first(func(c *corev1.Container) { c.Env, c.EnvFrom = env(keyOf("")), allOf("") }), ""},
		"env of other things": {first(func(c *corev1.Container) {
			c.Env, c.EnvFrom = append(env(plain), corev1.EnvVar{Name: "W", Value: "w"}), configured
		}), ""},
		"env of an init container":    {func(p *corev1.Pod) { p.Spec.InitContainers[0].Env = env(keyOf("s")) }, secrets},
		"secret":                      {volume("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}), secrets},
		"secret without a name":       {volume("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), ""},
		"projected":                   {sources(corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}), secrets},
		"projected without a name":    {sources(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}}), ""},
		"projected, other things":     {sources(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}, corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}), ""},
		"projected, beside":           {sources(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), tokens},
		"token":                       {sources(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), tokens},
		"driver without a secret":     {volume("v", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), ""},
		"driver, secret with no name": {volume("v", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: empty}}), ""},
		"share without a secret":      {volume("v", corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}), ""},
	} {
		want := ""
		if tt.refusal != "" {
			want = `pods "p" is forbidden: ` + tt.refusal
		}
		if admit, validate := both(t, plugin, pod(mirror, tt.change)); admit != want || validate != want {
			t.Errorf("%s: Admit %q, Validate %q, want %q", name, admit, validate, want)
		}
	}
}

// TestMountableSecrets: a pod of an account that limits secrets may use those that it lists, in any field.
func TestMountableSecrets(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix})
	const (
		strict = ` is not allowed because service account strict does not reference that `
		opened = ` referencing secret.secretName="s"` + strict + "secret"
	)
	secret := func(name string) func(*corev1.Pod) {
		return volume("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}})
	}
	other := volume("w", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	initial := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.InitContainers[0]) }
	}
	first := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	plain := []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}}
	for name, tt := range map[string]struct {
		change  func(*corev1.Pod)
		refusal string
	}{
		"nothing":               {other, ""},
		"a listed volume":       {secret("mine"), ""},
		"a volume":              {secret("s"), `volume with secret.secretName="s"` + strict + "secret"},
		"a volume after others": {func(p *corev1.Pod) { other(p); secret("mine")(p); secret("s")(p) }, `volume with secret.secretName="s"` + strict + "secret"},
		"listed env":            {first(func(c *corev1.Container) { c.Env, c.EnvFrom = env(keyOf("mine")), allOf("mine") }), ""},
		"plain env": {first(func(c *corev1.Container) {
			c.Env, c.EnvFrom = plain, []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}
		}), ""},
		"env":                       {first(func(c *corev1.Container) { c.Env = append(plain, env(keyOf("s"))...) }), `container c with envVar V` + opened},
		"env from":                  {first(func(c *corev1.Container) { c.EnvFrom = append(allOf("mine"), allOf("s")...) }), `container c with envFrom` + opened},
		"env of an init container":  {initial(func(c *corev1.Container) { c.Env = env(keyOf("s")) }), `init container i with envVar V` + opened},
		"from of an init container": {initial(func(c *corev1.Container) { c.EnvFrom = allOf("s") }), `init container i with envFrom` + opened},
		"a listed pull secret":      {pull("registry"), ""},
		"a pull secret":             {pull("s"), `imagePullSecrets[0].name="s"` + strict + "imagePullSecret"},
		"a mountable pull secret":   {pull("mine"), `imagePullSecrets[0].name="mine"` + strict + "imagePullSecret"},
	} {
		want := ""
		if tt.refusal != "" {
			want = `pods "p" is forbidden: ` + tt.refusal
		}
		if admit, validate := both(t, plugin, pod(account("strict"), tt.change)); admit != want || validate != want {
			t.Errorf("%s: Admit %q, Validate %q, want %q", name, admit, validate, want)
		}
		if admit, validate := both(t, plugin, pod(account("puller"), tt.change)); admit != "" || validate != "" {
			t.Errorf("%s, without limits: Admit %q, Validate %q", name, admit, validate)
		}
	}
	added := func(name string) *corev1.Pod {
		return pod(account(name), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", EnvFrom: allOf("s")}}}
		})
	}
	for name, want := range map[string]string{"strict": "ephemeral container e with envFrom" + opened, "puller": "<nil>"} {
		r := admissiontest.Update(t, pod(account(name)), added(name), admissiontest.Subresource("ephemeralcontainers"))
		if got := fmt.Sprint(plugin.Validate(t.Context(), r)); got != want {
			t.Errorf("ephemeral container of %s: %s, want %s", name, got, want)
		}
	}
}

// TestValidateRequiresAdmit: Validate requires what Admit would have filled in, but only when pods are created or
// get ephemeral containers.
func TestValidateRequiresAdmit(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix})
	const none = `pods "p" is forbidden: no service account specified for pod ns/p`
	ephemeral := admissiontest.Subresource("ephemeralcontainers")
	another := func(r *admission.Request) { r.Resource.Resource = "podtemplates" }
	for name, tt := range map[string]struct {
		r    *admission.Request
		want string
	}{
		"create":                        {admissiontest.Create(t, pod()), none},
		"create with an unknown":        {admissiontest.Create(t, pod(account("x"))), `pods "p" is forbidden: error looking up service account ns/x: serviceaccount "x" not found`},
		"create of a part":              {admissiontest.Create(t, pod(), admissiontest.Subresource("binding")), ""},
		"create of ephemeral":           {admissiontest.Create(t, pod(), ephemeral), ""},
		"update":                        {admissiontest.Update(t, pod(), pod()), ""},
		"update of ephemeral":           {admissiontest.Update(t, pod(), pod(), ephemeral), none},
		"update of ephemeral, unknown":  {admissiontest.Update(t, pod(), pod(account("x")), ephemeral), `pods "p" is forbidden: error looking up service account ns/x: serviceaccount "x" not found`},
		"a pod in another kind's place": {admissiontest.Create(t, pod(), another), ""},
	} {
		got := ""
		if err := plugin.Validate(t.Context(), tt.r); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: Validate %q, want %q", name, got, tt.want)
		}
	}
	for name, r := range map[string]*admission.Request{
		"a part":                        admissiontest.Create(t, pod(), admissiontest.Subresource("binding")),
		"a pod in another kind's place": admissiontest.Create(t, pod(), another),
	} {
		if err := plugin.Admit(t.Context(), r); err != nil || r.Object.(*corev1.Pod).Spec.ServiceAccountName != "" {
			t.Errorf("%s: admitted as %+v, %v", name, r.Object, err)
		}
	}
}

// TestCacheIsEnough: an account in the cache is not read from the server.
func TestCacheIsEnough(t *testing.T) {
	asked := 0
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix, Live: func(context.Context, string, string) (*corev1.ServiceAccount, bool, error) {
		asked++
		return nil, false, errors.New("no connection")
	}})
	if err := plugin.Admit(t.Context(), admissiontest.Create(t, pod())); err != nil || asked != 0 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// TestBaseOfVolumeName: the suffix of a volume's name is made for the pod, which may get its name later.
func TestBaseOfVolumeName(t *testing.T) {
	var got string
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: func(resource, namespace, base string) string {
		got = resource + " " + namespace + " " + base
		return "x"
	}})
	for want, change := range map[string]func(*corev1.Pod){
		"volumes ns p/kube-api-access-":    func(p *corev1.Pod) { p.GenerateName = "web-" },
		"volumes ns web-/kube-api-access-": func(p *corev1.Pod) { p.Name, p.GenerateName = "", "web-" },
	} {
		if err := plugin.Admit(t.Context(), admissiontest.Create(t, pod(change))); err != nil || got != want {
			t.Errorf("made for %q, want %q: %v", got, want, err)
		}
	}
}
