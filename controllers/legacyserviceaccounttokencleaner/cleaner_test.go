package legacyserviceaccounttokencleaner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/legacyserviceaccounttokencleaner"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/lifecycle"
)

const (
	day          = 24 * time.Hour
	lastUsed     = "kubernetes.io/legacy-token-last-used"
	invalidSince = "kubernetes.io/legacy-token-invalid-since"
)

func at(resource, namespace, name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: namespace, Name: name}
}

func sources(api *controllerstest.API, o informer.Options) legacyserviceaccounttokencleaner.Sources {
	return legacyserviceaccounttokencleaner.Sources{
		Accounts: informer.New(controllerstest.Source[*corev1.ServiceAccount](api, at("serviceaccounts", "", "").Resource), o),
		Secrets:  informer.New(controllerstest.Source[*corev1.Secret](api, at("secrets", "", "").Resource), o),
		Pods:     informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), o),
	}
}

// world is what there is when the controller starts, on 2000-01-01.
type world struct {
	account *corev1.ServiceAccount
	secret  *corev1.Secret
	pod     *corev1.Pod
	since   string
}

func newWorld() *world {
	return &world{
		account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bot", UID: "1"}, Secrets: []corev1.ObjectReference{{Name: "robot"}}},
		secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "2", CreationTimestamp: metav1.NewTime(time.Now()), Annotations: map[string]string{corev1.ServiceAccountNameKey: "bot"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		},
		pod:   &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}},
		since: "2000-01-01",
	}
}

// TestRounds: when a token is marked as invalid, and when it goes.
func TestRounds(t *testing.T) {
	env := func(ref *corev1.EnvVarSource) []corev1.EnvVar { return []corev1.EnvVar{{Name: "A", ValueFrom: ref}} }
	volume := func(v corev1.VolumeSource) func(w *world) {
		return func(w *world) { w.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: v}} }
	}
	for name, tt := range map[string]struct {
		to           func(w *world)
		marked, gone time.Duration // after the start; 0 is never
	}{
		"never used":              {func(*world) {}, 366 * day, 732 * day},
		"used":                    {func(w *world) { w.secret.Labels = map[string]string{lastUsed: "2000-04-10"} }, 466 * day, 832 * day},
		"used long ago":           {func(w *world) { w.secret.Labels = map[string]string{lastUsed: "1990-01-01"} }, 366 * day, 732 * day},
		"used at no date":         {func(w *world) { w.secret.Labels = map[string]string{lastUsed: "yesterday"} }, 0, 0},
		"tracked for years":       {func(w *world) { w.since = "1990-01-01" }, 366 * day, 732 * day}, // it must be old itself
		"tracked since no date":   {func(w *world) { w.since = "yesterday" }, 0, 0},
		"not tracked":             {func(w *world) { w.since = "" }, 0, 0},
		"older than the tracking": {func(w *world) { w.secret.CreationTimestamp = metav1.NewTime(time.Now().AddDate(-5, 0, 0)) }, 366 * day, 732 * day},
		"made by hand":            {func(w *world) { w.account.Secrets = nil }, 0, 0},
		"of another life":         {func(w *world) { w.secret.Annotations[corev1.ServiceAccountUIDKey] = "0" }, 0, 0},
		"of this life":            {func(w *world) { w.secret.Annotations[corev1.ServiceAccountUIDKey] = "1" }, 366 * day, 732 * day},
		"of nobody":               {func(w *world) { w.account.Name = "other" }, 0, 0},
		"of another type":         {func(w *world) { w.secret.Type = corev1.SecretTypeOpaque }, 0, 0},
		"marked at no date":       {func(w *world) { w.secret.Labels = map[string]string{invalidSince: "yesterday"} }, 366 * day, 732 * day},
		"mounted":                 {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "robot"}}), 0, 0},
		"another is mounted":      {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}), 366 * day, 732 * day},
		"projected": {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "robot"}}}}}}), 0, 0},
		"for a driver": {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", NodePublishSecretRef: &corev1.LocalObjectReference{Name: "robot"}}}), 0, 0},
		"for images":   {func(w *world) { w.pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "robot"}} }, 0, 0},
		"in a variable": {func(w *world) {
			w.pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Env: env(&corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "robot"}, Key: "token"}})}}
		}, 0, 0},
		"in another variable": {func(w *world) {
			w.pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i",
				Env: append(env(&corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}}),
					corev1.EnvVar{Name: "B", Value: "robot"}, corev1.EnvVar{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}),
				EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}},
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "robot"}}}}}}
			w.pod.Spec.InitContainers = w.pod.Spec.Containers
			w.pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}}}
			w.pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "other"}}
		}, 366 * day, 732 * day},
		"for debugging": {func(w *world) {
			w.pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "robot"}}}}}}}
		}, 0, 0},
		"going":         {func(w *world) { w.secret.DeletionTimestamp = new(metav1.Now()) }, 0, 0},
		"of no account": {func(w *world) { w.secret.Annotations = nil }, 0, 0},
		"in all variables": {func(w *world) {
			w.pod.Spec.InitContainers = []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "robot"}}}}}}
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				tt.to(w)
				a := start(t, w, nil)
				begun := time.Now()
				var marked, gone time.Duration
				for gone == 0 && time.Since(begun) < 1000*day {
					time.Sleep(day)
					synctest.Wait()
					secret, ok := a.secrets.Get("ns", "robot")
					if !ok {
						gone = time.Since(begun)
					} else if _, err := time.Parse(time.DateOnly, secret.Labels[invalidSince]); err == nil && marked == 0 {
						marked = time.Since(begun)
					}
				}
				if marked != tt.marked || gone != tt.gone {
					t.Errorf("marked after %d days, gone after %d; want %d and %d", marked/day, gone/day, tt.marked/day, tt.gone/day)
				}
			})
		})
	}
}

// TestVolumes: volumes of all kinds that need a secret keep it, and no other.
func TestVolumes(t *testing.T) {
	ref := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	for kind, volume := range map[string]func(name string) corev1.VolumeSource{
		"secret": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
		},
		"projected": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: *ref("robot")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: *ref(name)}}}}}
		},
		"azureFile": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: name}}
		},
		"cephfs": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref(name)}}
		},
		"cinder": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: ref(name)}}
		},
		"flexVolume": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref(name)}}
		},
		"rbd": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: ref(name)}}
		},
		"scaleIO": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref(name)}}
		},
		"iscsi": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref(name)}}
		},
		"storageos": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref(name)}}
		},
		"csi": func(name string) corev1.VolumeSource {
			return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref(name)}}
		},
		"none": func(name string) corev1.VolumeSource {
			if name == "robot" {
				return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
			}
			return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}
		},
	} {
		for name, kept := range map[string]bool{"robot": true, "other": false} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.pod.Spec.Volumes = []corev1.Volume{{Name: "e"}, {Name: "v", VolumeSource: volume(name)}}
				a := start(t, w, nil)
				time.Sleep(367 * day)
				synctest.Wait()
				if secret, _ := a.secrets.Get("ns", "robot"); (secret.Labels[invalidSince] == "") != kept {
					t.Errorf("%s of %s: labels %v", kind, name, secret.Labels)
				}
			})
		}
	}
}

// start runs the controller, with an API and caches that show the world.
func start(t *testing.T, w *world, log *slog.Logger, changes ...func(*api)) *api {
	t.Helper()
	a := &api{secrets: memory.New[*corev1.Secret](), since: w.since}
	for _, change := range changes {
		change(a)
	}
	a.secrets.Put(w.secret)
	accounts, pods := memory.New[*corev1.ServiceAccount](), memory.New[*corev1.Pod]()
	accounts.Put(w.account)
	pods.Put(w.pod)
	o := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	in := legacyserviceaccounttokencleaner.Sources{
		Accounts: informer.New[*corev1.ServiceAccount](accounts, o), Secrets: informer.New[*corev1.Secret](a.secrets, o), Pods: informer.New[*corev1.Pod](pods, o),
	}
	c := legacyserviceaccounttokencleaner.New(in, a, legacyserviceaccounttokencleaner.Options{Logger: log})
	if c.Name() != "legacy-serviceaccount-token-cleaner-controller" {
		t.Errorf("named %s", c.Name())
	}
	controllerstest.Go(t, in.Accounts, in.Secrets, in.Pods, controllers.NewLoop(c, controllers.Options{}))
	return a
}

// TestLog: what fails is told, and what another did first is no failure.
func TestLog(t *testing.T) {
	for name, tt := range map[string]struct {
		to   func(a *api)
		want string
	}{
		"fine":             {func(*api) {}, ""},
		"not tracked":      {func(a *api) { a.since = "" }, "cannot tell since when the use of tokens is tracked"},
		"tracked at times": {func(a *api) { a.since = "x" }, `parsing time \"x\"`},
		"no ConfigMap":     {func(a *api) { a.other = &corev1.Pod{} }, "the server answered with a *v1.Pod"},
		"not marked":       {func(a *api) { a.patch = errors.New("down") }, "cannot clean a token that is not used\" secret=ns/robot error=down"},
		"not deleted":      {func(a *api) { a.delete = errors.New("down") }, "cannot clean a token that is not used\" secret=ns/robot error=down"},
		"changed":          {func(a *api) { a.delete = apierrors.NewConflict(corev1.Resource("secrets"), "robot", nil) }, ""},
		"deleted":          {func(a *api) { a.delete = apierrors.NewNotFound(corev1.Resource("secrets"), "robot") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				start(t, newWorld(), slog.New(slog.NewTextHandler(&log, nil)), tt.to)
				time.Sleep(734 * day)
				synctest.Wait()
				if got := log.String(); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
					t.Errorf("%.400s", got)
				}
			})
		})
	}
}

// api is an API with one ConfigMap, and secrets. Two years of its time are short.
type api struct {
	secrets       *memory.Store[*corev1.Secret]
	since         string
	other         runtime.Object // in place of the ConfigMap
	patch, delete error
}

func (a *api) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	if a.other != nil {
		return a.other, nil
	}
	if a.since == "" || t.Namespace != "kube-system" || t.Name != "kube-apiserver-legacy-service-account-token-tracking" {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	return &corev1.ConfigMap{Data: map[string]string{"since": a.since}}, nil
}

func (a *api) Patch(_ context.Context, t client.Target, patch client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	if a.patch != nil {
		return nil, a.patch
	}
	current, ok := a.secrets.Get(t.Namespace, t.Name)
	if !ok {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	secret := current.DeepCopy()
	if err := json.Unmarshal(patch.Data, secret); err != nil {
		return nil, err
	}
	return a.secrets.Put(secret), nil
}

func (a *api) Delete(_ context.Context, t client.Target, o metav1.DeleteOptions) error {
	if a.delete != nil {
		return a.delete
	}
	if current, ok := a.secrets.Get(t.Namespace, t.Name); !ok || *o.Preconditions.ResourceVersion != current.ResourceVersion {
		return apierrors.NewConflict(t.Resource.GroupResource(), t.Name, nil)
	}
	a.secrets.Delete(t.Namespace, t.Name)
	return nil
}

// A token that has not been used for long is marked. The API and the caches of it are in memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	w := newWorld()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"}, Data: map[string]string{"since": "2000-01-01"}}
	api, err := controllerstest.New(controllerstest.Options{
		Objects: []informer.Object{w.account, w.secret, config},
		Before: func(r faults.Request) error {
			if r.Verb == faults.Patch {
				fmt.Println(r)
				stop()
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := sources(api, informer.Options{})
	c := legacyserviceaccounttokencleaner.New(in, api, legacyserviceaccounttokencleaner.Options{Period: time.Nanosecond, Interval: time.Millisecond})
	if err := lifecycle.Group(api, in.Accounts, in.Secrets, in.Pods, controllers.NewLoop(c, controllers.Options{})).Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: patch secrets ns/robot
}
