package serviceaccount_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

var _ serviceaccount.Accounts = (*informer.Informer[*corev1.ServiceAccount])(nil)

var no = false

// accounts returns a cache with the accounts of these tests, in namespace ns.
func accounts() *memory.Store[*corev1.ServiceAccount] {
	store := memory.New[*corev1.ServiceAccount]()
	for _, a := range []*corev1.ServiceAccount{
		{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "puller"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "quiet"}, AutomountServiceAccountToken: &no},
		{
			ObjectMeta:       metav1.ObjectMeta{Name: "strict", Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}},
			Secrets:          []corev1.ObjectReference{{Name: "mine"}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		},
	} {
		a.Namespace = "ns"
		store.Put(a)
	}
	return store
}

func suffix(resource, namespace, base string) string { return "abcde" }

// pod returns a pod with an init container and a container.
func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func account(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = name, name }
}

func mirror(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} }

func automount(yes bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes }
}

func pull(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: n})
		}
	}
}

func volume(name string, source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
}

// tokenVolume adds the token volume as upstream makes it.
func tokenVolume(name string) func(*corev1.Pod) {
	mode, seconds := int32(0o644), int64(3607)
	return volume(name, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}})
}

func mount(init bool, volume, path string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		if init {
			c = &p.Spec.InitContainers[0]
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true})
	}
}

const path = "/var/run/secrets/kubernetes.io/serviceaccount"

// mounted mounts the token volume in both containers.
func mounted(volume string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { mount(true, volume, path)(p); mount(false, volume, path)(p) }
}

func TestAdmit(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix})
	const generated = "kube-api-access-abcde"
	for name, test := range map[string]struct{ given, want *corev1.Pod }{
		"the default account":     {pod(), pod(account("default"), tokenVolume(generated), mounted(generated))},
		"another account":         {pod(account("puller")), pod(account("puller"), pull("registry"), tokenVolume(generated), mounted(generated))},
		"pull secrets of its own": {pod(account("puller"), pull("own")), pod(account("puller"), pull("own"), tokenVolume(generated), mounted(generated))},
		"account wants no token":  {pod(account("quiet")), pod(account("quiet"))},
		"pod wants a token":       {pod(account("quiet"), automount(true)), pod(account("quiet"), automount(true), tokenVolume(generated), mounted(generated))},
		"pod wants no token":      {pod(automount(false)), pod(automount(false), account("default"))},
		"another mount in one":    {pod(mount(false, "x", path)), pod(mount(false, "x", path), account("default"), tokenVolume(generated), mount(true, generated, path))},
		"another mount in both":   {pod(mounted("x")), pod(mounted("x"), account("default"))},
		"an existing volume":      {pod(tokenVolume("kube-api-access-old")), pod(tokenVolume("kube-api-access-old"), account("default"), mounted("kube-api-access-old"))},
		"a mirror pod":            {pod(mirror), pod(mirror)},
	} {
		t.Run(name, func(t *testing.T) {
			r := admissiontest.Create(t, test.given)
			admissiontest.TestPlugin(t, plugin, r)
			admissiontest.Admits(t, plugin, r, test.want)
		})
	}
}

func TestLeavesTheRestAlone(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	admissiontest.Admits(t, plugin, admissiontest.Create(t, node), node)
	admissiontest.Admits(t, plugin, admissiontest.Update(t, pod(), pod()), pod())
	admissiontest.Admits(t, plugin, admissiontest.Update(t, pod(), pod(), admissiontest.Subresource("status")), pod())
}

func env(source corev1.EnvVarSource) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "V", ValueFrom: &source}}
}

func keyOf(secret string) corev1.EnvVarSource {
	return corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}
}

func allOf(secret string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
}

func TestRefusals(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix})
	secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}
	ephemeral := func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Env: env(keyOf("s"))}}}
	}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		refusal string
	}{
		"unknown account":     {pod(account("x")), `error looking up service account ns/x: serviceaccount "x" not found`},
		"mirror, account":     {pod(mirror, account("default")), `a mirror pod may not reference service accounts`},
		"mirror, secret":      {pod(mirror, volume("v", secret)), `a mirror pod may not reference secrets`},
		"mirror, pull secret": {pod(mirror, pull("s")), `a mirror pod may not reference secrets`},
		"mirror, env":         {pod(mirror, func(p *corev1.Pod) { p.Spec.InitContainers[0].EnvFrom = allOf("s") }), `a mirror pod may not reference secrets`},
		"mirror, ephemeral":   {pod(mirror, ephemeral), `a mirror pod may not reference secrets`},
		"mirror, token":       {pod(mirror, tokenVolume("v")), `a mirror pod may not use ServiceAccountToken volume projections`},
		"strict, volume": {pod(account("strict"), volume("v", secret)),
			`volume with secret.secretName="s" is not allowed because service account strict does not reference that secret`},
		"strict, init env": {pod(account("strict"), func(p *corev1.Pod) { p.Spec.InitContainers[0].Env = env(keyOf("s")) }),
			`init container i with envVar V referencing secret.secretName="s" is not allowed because service account strict does not reference that secret`},
		"strict, env from": {pod(account("strict"), func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = allOf("s") }),
			`container c with envFrom referencing secret.secretName="s" is not allowed because service account strict does not reference that secret`},
		"strict, pull secret": {pod(account("strict"), pull("registry", "s")),
			`imagePullSecrets[1].name="s" is not allowed because service account strict does not reference that imagePullSecret`},
	} {
		t.Run(name, func(t *testing.T) {
			admissiontest.Refuses(t, plugin, admissiontest.Create(t, test.pod), `pods "p" is forbidden: `+test.refusal)
		})
	}
	listed := pod(account("strict"), automount(false), pull("registry"), func(p *corev1.Pod) { p.Spec.Containers[0].Env = env(keyOf("mine")) })
	admissiontest.Admits(t, plugin, admissiontest.Create(t, listed), listed)

	update := admissiontest.Update(t, pod(account("strict")), pod(account("strict"), ephemeral), admissiontest.Subresource("ephemeralcontainers"))
	admissiontest.Refuses(t, plugin, update, `ephemeral container e with envVar V referencing secret.secretName="s" is not allowed because service account strict does not reference that secret`)
	without := admissiontest.Update(t, pod(), pod(), admissiontest.Subresource("ephemeralcontainers"))
	admissiontest.Refuses(t, plugin, without, `pods "p" is forbidden: no service account specified for pod ns/p`)
}

// Every volume type that can refer to a secret counts for mirror pods.
func TestMirrorPodVolumes(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{})
	ref := &corev1.LocalObjectReference{Name: "s"}
	for name, source := range map[string]corev1.VolumeSource{
		"azureFile":  {AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s"}},
		"cephfs":     {CephFS: &corev1.CephFSVolumeSource{SecretRef: ref}},
		"cinder":     {Cinder: &corev1.CinderVolumeSource{SecretRef: ref}},
		"flexVolume": {FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref}},
		"projected":  {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: *ref}}}}},
		"rbd":        {RBD: &corev1.RBDVolumeSource{SecretRef: ref}},
		"scaleIO":    {ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref}},
		"iscsi":      {ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref}},
		"storageos":  {StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref}},
		"csi":        {CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref}},
	} {
		t.Run(name, func(t *testing.T) {
			admissiontest.Refuses(t, plugin, admissiontest.Create(t, pod(mirror, volume("v", source))),
				`pods "p" is forbidden: a mirror pod may not reference secrets`)
		})
	}
	plain := pod(mirror, volume("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), volume("w", corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{}}))
	admissiontest.Admits(t, plugin, admissiontest.Create(t, plain), plain)
}

// The default account of a new namespace is waited for; others are read once.
func TestWaitsForTheDefaultAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		live := func(_ context.Context, namespace, name string) (*corev1.ServiceAccount, bool, error) {
			calls++
			if name == "broken" {
				return nil, false, errors.New("no connection")
			}
			return &corev1.ServiceAccount{}, namespace == "late" && calls > 3, nil
		}
		plugin := serviceaccount.New(accounts(), serviceaccount.Options{Suffix: suffix, Live: live})
		in := func(namespace string, changes ...func(*corev1.Pod)) *admission.Request {
			p := pod(changes...)
			p.Namespace = namespace
			return admissiontest.Create(t, p)
		}
		for _, test := range []struct {
			request *admission.Request
			refusal string
			calls   int
			after   time.Duration
		}{
			{in("late"), "", 4, 300 * time.Millisecond},
			{in("never"), `pods "p" is forbidden: error looking up service account never/default: serviceaccount "default" not found`, 10, 900 * time.Millisecond},
			{in("never", account("x")), `pods "p" is forbidden: error looking up service account never/x: serviceaccount "x" not found`, 1, 0},
			{in("never", account("broken")), `pods "p" is forbidden: error looking up service account never/broken: no connection`, 1, 0},
		} {
			calls = 0
			start := time.Now()
			r := *test.request
			r.Object = r.Object.DeepCopyObject()
			err := plugin.Admit(t.Context(), &r)
			if err == nil && test.refusal != "" || err != nil && err.Error() != test.refusal {
				t.Errorf("got %v, want %q", err, test.refusal)
			}
			if took := time.Since(start); calls != test.calls || took != test.after {
				t.Errorf("%d look-ups in %v, want %d in %v", calls, took, test.calls, test.after)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if err := plugin.Admit(ctx, in("never")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, admission.ErrForbidden) {
			t.Errorf("after the deadline: %v", err)
		}
	})
}

func TestRandomSuffix(t *testing.T) {
	plugin := serviceaccount.New(accounts(), serviceaccount.Options{})
	seen := map[string]bool{}
	for range 20 {
		out, err := admissiontest.Run(t, plugin, admissiontest.Create(t, pod()))
		if err != nil {
			t.Fatal(err)
		}
		name := out.(*corev1.Pod).Spec.Volumes[0].Name
		if !regexp.MustCompile(`^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$`).MatchString(name) {
			t.Errorf("volume %q", name)
		}
		seen[name] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d different names in 20", len(seen))
	}
}

func Example() {
	store := memory.New[*corev1.ServiceAccount]() // in a server, an informer of service accounts
	store.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}})
	plugin := serviceaccount.New(store, serviceaccount.Options{Suffix: suffix})

	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	r := &admission.Request{Operation: admission.Create, Namespace: "ns", Object: pod}
	r.Resource.Resource = "pods"
	err := plugin.Admit(context.Background(), r)
	fmt.Println(pod.Spec.ServiceAccountName, err)
	fmt.Println(pod.Spec.Containers[0].VolumeMounts[0].Name, pod.Spec.Containers[0].VolumeMounts[0].MountPath)
	// Output:
	// default <nil>
	// kube-api-access-abcde /var/run/secrets/kubernetes.io/serviceaccount
}
