package volume_test

import (
	"context"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// files renders everything that a container sees in a volume, with modes other than 0644.
func files(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := os.Stat(path)
		if err != nil || info.IsDir() || strings.HasPrefix(rel, "..") {
			return err
		}
		line := rel + "=" + read(t, path)
		if info.Mode() != 0o644 {
			line += fmt.Sprintf("(%o)", info.Mode().Perm())
		}
		list = append(list, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Links to directories are not followed; the directories themselves are visited.
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		target, err := os.Stat(filepath.Join(dir, e.Name()))
		if err == nil && target.IsDir() && e.Type()&os.ModeSymlink != 0 && !strings.HasPrefix(e.Name(), "..") {
			inner, _ := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
			list = append(list, e.Name()+"{"+files(t, inner)+"}")
		}
	}
	return strings.Join(list, " ")
}

func TestContent(t *testing.T) {
	binary := config("binary", "text", "T")
	binary.BinaryData = map[string][]byte{"bytes": {0, 1, 2}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "secret"}, Data: map[string][]byte{"s": []byte("S"), "t": []byte("T")}}
	s := newServer(config("config", "a", "1", "b", "2"), binary, secret)
	optional := new(true)
	configRef := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for name, c := range map[string]struct {
		source corev1.VolumeSource
		want   string
	}{
		"config": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: configRef("config")}}, "a=1 b=2"},
		"mode": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: configRef("config"), DefaultMode: new(int32(0o400)),
		}}, "a=1(400) b=2(400)"},
		"items": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: configRef("config"), Items: []corev1.KeyToPath{
			{Key: "a", Path: "x"}, {Key: "b", Path: "dir/y", Mode: new(int32(0o600))}, {Key: "a", Path: "dir/z"},
		}}}, "x=1 dir{y=2(600) z=1}"},
		"binary":   {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: configRef("binary")}}, "bytes=\x00\x01\x02 text=T"},
		"optional": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: configRef("no"), Optional: optional}}, ""},
		"optionalKey": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: configRef("config"), Optional: optional, Items: []corev1.KeyToPath{{Key: "z", Path: "z"}, {Key: "a", Path: "a"}},
		}}, "a=1"},
		"secret":     {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret"}}, "s=S t=T"},
		"secretMode": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret", DefaultMode: new(int32(0o400))}}, "s=S(400) t=T(400)"},
		"downwardMode": {corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: new(int32(0o400)), Items: []corev1.DownwardAPIVolumeFile{
			{Path: "uid", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}},
		}}}, "uid=uid-1(400)"},
		"secretItems":    {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret", Items: []corev1.KeyToPath{{Key: "t", Path: "u/v"}}}}, "u{v=T}"},
		"optionalSecret": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "no", Optional: optional}}, ""},
		"downward": {corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "x", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['x']"}},
			{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['n/Note']"}, Mode: new(int32(0o440))},
			{Path: "uid", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}},
			{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "main", Resource: "limits.cpu", Divisor: resource.MustParse("1m")}},
			{Path: "mem", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "main", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
		}}}, "cpu=250 labels=x=\"1\"\ny=\"2\" mem=512 note=N(440) uid=uid-1 x=1"},
		"projected": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o444)), Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: configRef("config")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: configRef("secret"), Items: []corev1.KeyToPath{{Key: "s", Path: "a"}}}},
		}}}, "a=S(444) b=2(444)"},
		"a source of nothing": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{}, {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: configRef("config")}},
		}}}, "a=1 b=2"},
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := node(t, s, volume.Options{Allocatable: func() corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}
			}})
			p := pod(vol("v", c.source))
			p.Labels, p.Annotations = map[string]string{"y": "2", "x": "1"}, map[string]string{"n/Note": "N"}
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
			prepare(t, v, p)
			got := mounts(t, v, request(p))["/v"]
			if have := files(t, got.HostPath); have != c.want || !got.ReadOnly {
				t.Errorf("%s\nwant %s (%+v)", have, c.want, got)
			}
			if on := mountsBelow(t, dir); os.Getuid() == 0 && (len(on) == 1) != (c.source.ConfigMap == nil) {
				t.Errorf("in memory: %v", on)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestUpdates: changes in the API appear in the volume, even for a pod that another process prepared.
func TestUpdates(t *testing.T) {
	s := newServer(config("c", "a", "1"))
	v, dir := node(t, s, volume.Options{})
	labels := vol("labels", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "l", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
	}}})
	p := pod(configMapVolume("c"), labels)
	prepare(t, v, p)
	at := mounts(t, v, request(p))
	for i, change := range []func(){
		func() { s.put(config("c", "a", "2")) },
		func() { s.put(config("c", "b", "3")) },
		func() { p = p.DeepCopy(); p.Labels = map[string]string{"new": "label"} },
		func() { v = reopen(t, dir, s, volume.Options{}) },
		func() { s.put(config("c")) },
	} {
		change()
		prepare(t, v, p)
		got := files(t, at["/c"].HostPath) + " " + files(t, at["/labels"].HostPath)
		want := []string{"a=2 l=", "b=3 l=", `b=3 l=new="label"`, `b=3 l=new="label"`, ` l=new="label"`}[i]
		if got != want {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
	// A file that contains what another would be told apart by is no other file.
	s.put(config("c", "a", "x", "b", "y"))
	prepare(t, v, p)
	head := binary.LittleEndian.AppendUint64(make([]byte, 0, 24), 1)
	head = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(head, 0), 0o644)
	s.put(config("c", "a", "x"+string(head)+"by"))
	prepare(t, v, p)
	if exists(filepath.Join(at["/c"].HostPath, "b")) {
		t.Error("a file is left")
	}
	steps := 0
	v.SetStep(func(string, string) error { steps++; return nil })
	prepare(t, v, p)
	if steps > 0 {
		t.Errorf("%d changes were made though nothing changed", steps)
	}
	v.SetStep(nil)
	release(t, v, dir, p.UID)
}

// TestUsedVolumes: a volume counts as used if a container of any kind mounts it or has a variable from it.
func TestUsedVolumes(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	p := pod(emptyDirVolume("main", ""))
	for _, name := range []string{"init", "debug", "debug more", "env", "unused"} {
		p.Spec.Volumes = append(p.Spec.Volumes, emptyDirVolume(name, ""))
	}
	mount := func(name string) []corev1.VolumeMount { return []corev1.VolumeMount{{Name: name, MountPath: "/x"}} }
	p.Spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: mount("init"), Env: []corev1.EnvVar{
		{Name: "A"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "env"}}},
	}}}
	for _, name := range []string{"debug", "debug more"} {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, VolumeMounts: mount(name)},
		})
	}
	prepare(t, v, p)
	for name, want := range map[string]bool{"main": true, "init": true, "debug": true, "debug more": true, "env": true, "unused": false} {
		if _, err := os.Stat(v.Path(p, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	release(t, v, dir, p.UID)
}

// TestModeBits: modes in the API are numbers, including bits beyond the permissions.
func TestModeBits(t *testing.T) {
	v, dir := node(t, newServer(config("c", "a", "1", "b", "2", "c", "3")), volume.Options{})
	p := pod(configMapVolume("c",
		corev1.KeyToPath{Key: "a", Path: "a", Mode: new(int32(0o4755))}, corev1.KeyToPath{Key: "b", Path: "b", Mode: new(int32(0o2700))},
		corev1.KeyToPath{Key: "c", Path: "c", Mode: new(int32(0o1600))}))
	prepare(t, v, p)
	for file, want := range map[string]os.FileMode{"a": os.ModeSetuid | 0o755, "b": os.ModeSetgid | 0o700, "c": os.ModeSticky | 0o600} {
		if got := mode(t, v.Path(p, "c"), file); got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
	release(t, v, dir, p.UID)
}

func TestTokens(t *testing.T) {
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			life, asked, refresh time.Duration
		}{
			{time.Hour, time.Hour, 48 * time.Minute},
			{10 * time.Minute, 10 * time.Minute, 8 * time.Minute},
			{365 * 24 * time.Hour, 3607 * time.Second, 24 * time.Hour}, // a server that extends the lifetime
			{240 * time.Hour, 240 * time.Hour, 24 * time.Hour},
			{30 * time.Minute, 2 * time.Hour, 24 * time.Minute}, // and one that shortens it
		} {
			s := newServer(rootCA())
			s.life = c.life
			v := reopen(t, dir, s, volume.Options{Rootless: true})
			p := pod(apiAccess())
			p.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = new(int64(c.asked.Seconds()))
			p.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.Audience = "vault"
			prepare(t, v, p)
			if next := v.NextRefresh(p.UID); max(time.Until(next), 0) != c.refresh {
				t.Errorf("%+v: refreshed after %v", c, time.Until(next))
			}
			file := filepath.Join(mounts(t, v, request(p))["/kube-api-access-x"].HostPath, "token")
			if len(s.asked[0].Audiences) != 1 || s.asked[0].Audiences[0] != "vault" {
				t.Errorf("asked for %+v", s.asked)
			}
			time.Sleep(c.refresh - time.Second)
			prepare(t, v, p)
			if got := read(t, file); got != "token-1 of ns/default" {
				t.Errorf("%+v: too early: %s", c, got)
			}
			time.Sleep(time.Second)
			s.err = errors.New("no server")
			prepare(t, v, p) // the old one is still valid for a while
			if got := read(t, file); got != "token-1 of ns/default" {
				t.Errorf("%+v: %s", c, got)
			}
			asked := len(s.asked)
			if next := v.NextRefresh(p.UID); time.Until(next) != 30*time.Second {
				t.Errorf("%+v: asked again after %v", c, time.Until(next))
			}
			prepare(t, v, p)
			if len(s.asked) != asked {
				t.Error("a server that is away is asked again at once")
			}
			s.err = nil
			time.Sleep(30 * time.Second)
			prepare(t, v, p)
			if got := read(t, file); got != "token-2 of ns/default" {
				t.Errorf("%+v: %s", c, got)
			}
			s.err = errors.New("no server")
			time.Sleep(c.life)
			want := `MountVolume.SetUp failed for volume "kube-api-access-x" : token of service account ns/default expired and refresh failed: no server`
			if err := v.Prepare(t.Context(), p); err == nil || err.Error() != want {
				t.Errorf("%+v: %v", c, err)
			}
			release(t, v, dir, p.UID)
			want = `MountVolume.SetUp failed for volume "kube-api-access-x" : failed to fetch token: no server`
			if err := v.Prepare(t.Context(), p); err == nil || err.Error() != want {
				t.Errorf("%+v: %v", c, err)
			}
			if v.Remembered() != 0 || !v.NextRefresh(p.UID).IsZero() {
				t.Error("a pod is remembered that has nothing")
			}
		}
	})
}

// bundles are those of a server that knows their fields.
type bundles struct {
	all []certificatesv1.ClusterTrustBundle
	err error
}

func (b bundles) List(_ context.Context, t client.Target, o metav1.ListOptions) (runtime.Object, error) {
	if b.err != nil {
		return nil, b.err
	}
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil || t.Resource != certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles") {
		return nil, fmt.Errorf("%v, %w", t, err)
	}
	list := &certificatesv1.ClusterTrustBundleList{}
	for _, c := range b.all {
		if selector.Matches(fields.Set{"metadata.name": c.Name, "spec.signerName": c.Spec.SignerName}) {
			list.Items = append(list.Items, c)
		}
	}
	return list, nil
}

func TestTrustBundles(t *testing.T) {
	block := func(der string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"dropped": "yes"}, Bytes: []byte(der)}))
	}
	plain := func(ders ...string) (out string) {
		for _, d := range ders {
			out += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(d)}))
		}
		return out
	}
	bundle := func(name, signer, label, data string) certificatesv1.ClusterTrustBundle {
		return certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": label}},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: data},
		}
	}
	all := []certificatesv1.ClusterTrustBundle{
		bundle("one", "", "", "text "+"\n"+block("b")+block("a")+block("b")),
		bundle("s:1", "s", "x", block("c")), bundle("s:2", "s", "y", block("d")+block("c")),
	}
	selector := func(label string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"l": label}}
	}
	for name, c := range map[string]struct {
		source    corev1.ClusterTrustBundleProjection
		want, err string
	}{
		"name":     {corev1.ClusterTrustBundleProjection{Name: new("one")}, plain("a", "b"), ""},
		"missing":  {corev1.ClusterTrustBundleProjection{Name: new("no")}, "", `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "no" not found`},
		"optional": {corev1.ClusterTrustBundleProjection{Name: new("no"), Optional: new(true)}, "", ""},
		"signer":   {corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: &metav1.LabelSelector{}}, plain("c", "d"), ""},
		"labels":   {corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: selector("x")}, plain("c"), ""},
		"no selector": {corev1.ClusterTrustBundleProjection{SignerName: new("s"), LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "l", Operator: "Like"},
		}}}, "", `while parsing label selector: "Like" is not a valid label selector operator`},
		"nothing": {corev1.ClusterTrustBundleProjection{SignerName: new("s")}, "", "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		"neither": {corev1.ClusterTrustBundleProjection{}, "", "ClusterTrustBundle projection requires either name or signerName to be set"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := volume.New(scratch(t), volume.Sources{Trust: volume.TrustBundlesOf(bundles{all: all})}, volume.Options{Rootless: true})
			if err != nil {
				t.Fatal(err)
			}
			c.source.Path = "ca.pem"
			p := pod(vol("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &c.source}},
			}}))
			err = v.Prepare(t.Context(), p)
			if c.err != "" {
				if failed := volume.Failures(err); len(failed) != 1 || failed[0].Err.Error() != c.err {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, mounts(t, v, request(p))["/v"].HostPath, "ca.pem"); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// TestTrustUnreadable: a server that does not answer is not one without bundles.
func TestTrustUnreadable(t *testing.T) {
	broken := errors.New("no route to host")
	for name, source := range map[string]corev1.ClusterTrustBundleProjection{
		"name":   {Name: new("one"), Optional: new(true), Path: "ca.pem"},
		"signer": {SignerName: new("s"), LabelSelector: &metav1.LabelSelector{}, Optional: new(true), Path: "ca.pem"},
	} {
		v, err := volume.New(scratch(t), volume.Sources{Trust: volume.TrustBundlesOf(bundles{err: broken})}, volume.Options{Rootless: true})
		if err != nil {
			t.Fatal(err)
		}
		p := pod(vol("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &source}},
		}}))
		if err := v.Prepare(t.Context(), p); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithoutSources(t *testing.T) {
	v := reopen(t, scratch(t), nil, volume.Options{Rootless: true})
	trust := vol("t", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("x")}},
	}}})
	p := pod(configMapVolume("c"), vol("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}), apiAccess(), trust)
	failed := volume.Failures(v.Prepare(t.Context(), p))
	if len(failed) != 4 {
		t.Errorf("got %v", failed)
	}
	for _, f := range failed {
		if n := strings.Count(f.Err.Error(), "there is no source of"); n != map[bool]int{true: 2, false: 1}[f.Volume == apiAccess().Name] {
			t.Errorf("%s: %v", f.Volume, f.Err)
		}
	}
	if _, err := volume.New("relative", volume.Sources{}, volume.Options{}); err == nil {
		t.Error("a relative directory was taken")
	}
	for _, uid := range []types.UID{"", ".", "..", "a/b", "../x", "a\x00"} {
		bad := p.DeepCopy()
		bad.UID = uid
		_, err := v.Mounts(t.Context(), request(bad))
		if v.Prepare(t.Context(), bad) == nil || v.Release(t.Context(), uid) == nil || err == nil {
			t.Errorf("a pod of UID %q was taken", uid)
		}
	}
}
