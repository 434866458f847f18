package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// TestNginx: a plain pod gets its token, its hosts file and its termination message file.
func TestNginx(t *testing.T) {
	s := newServer(rootCA())
	v, dir := node(t, s, volume.Options{})
	p := pod(apiAccess())
	prepare(t, v, p)
	got := mounts(t, v, request(p))
	if len(got) != 3 {
		t.Fatalf("mounts: %v", got)
	}
	access := got["/kube-api-access-x"]
	if !access.ReadOnly || access.HostPath != filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~projected/kube-api-access-x") {
		t.Errorf("%+v", access)
	}
	for file, want := range map[string]string{"token": "token-1 of ns/default", "ca.crt": "CERTIFICATE", "namespace": "ns"} {
		if data := read(t, access.HostPath, file); data != want {
			t.Errorf("%s: %q, want %q", file, data, want)
		}
		if m := mode(t, access.HostPath, file); m != 0o644 {
			t.Errorf("%s has mode %v", file, m)
		}
	}
	want := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n10.0.0.5\tweb\n"
	if hosts := read(t, got["/etc/hosts"].HostPath); hosts != want {
		t.Errorf("hosts: %q", hosts)
	}
	message := got["/dev/termination-log"]
	if m := mode(t, message.HostPath); m != 0o666 || message.ReadOnly {
		t.Errorf("termination log: %v %+v", m, message)
	}
	if filepath.Dir(message.HostPath) != filepath.Join(dir, "pods/uid-1/containers/main") {
		t.Errorf("termination log at %s", message.HostPath)
	}
	if len(s.asked) != 1 || *s.asked[0].ExpirationSeconds != 3607 || s.asked[0].BoundObjectRef.UID != "uid-1" || s.asked[0].Audiences != nil {
		t.Errorf("asked for %+v", s.asked)
	}
	prepare(t, v, p)
	if len(s.asked) != 1 {
		t.Error("a fresh token was replaced")
	}
	release(t, v, dir, p.UID)
	release(t, v, dir, p.UID)
}

func TestErrors(t *testing.T) {
	dir := scratch(t)
	file := write(t, "x", dir, "file")
	host := func(path string, kind corev1.HostPathType) corev1.Volume {
		return vol("x", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}})
	}
	secret := func(items ...corev1.KeyToPath) corev1.Volume {
		return vol("x", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: items}})
	}
	s := newServer(config("there", "key", "value"), &corev1.Secret{ObjectMeta: config("s").ObjectMeta})
	v := reopen(t, dir, s, volume.Options{})
	for name, c := range map[string]struct {
		volume corev1.Volume
		want   string
	}{
		"configmap": {configMapVolume("x"), `configmaps "x" not found`},
		"key":       {configMapVolume("there", corev1.KeyToPath{Key: "z", Path: "z"}), "configmap references non-existent config key: z"},
		"secret":    {vol("x", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "no"}}), `secrets "no" not found`},
		"secretKey": {secret(corev1.KeyToPath{Key: "z", Path: "z"}), "references non-existent secret key: z"},
		"directory": {host(file, corev1.HostPathDirectory), "hostPath type check failed: " + file + " is not a directory"},
		"missing":   {host(dir+"/no", corev1.HostPathDirectory), "hostPath type check failed: " + dir + "/no is not a directory"},
		"orCreate":  {host(file, corev1.HostPathDirectoryOrCreate), "hostPath type check failed: " + file + " is not a directory"},
		"file":      {host(dir, corev1.HostPathFile), "hostPath type check failed: " + dir + " is not a file"},
		"socket":    {host(file, corev1.HostPathSocket), "hostPath type check failed: " + file + " is not a socket file"},
		"char":      {host(file, corev1.HostPathCharDev), "hostPath type check failed: " + file + " is not a character device"},
		"block":     {host(file, corev1.HostPathBlockDev), "hostPath type check failed: " + file + " is not a block device"},
		"type":      {host(file, "Nonsense"), "Nonsense is an invalid volume type"},
		"backstep":  {hostPathVolume("x", "/tmp/../etc"), "invalid HostPath `/tmp/../etc`: must not contain '..'"},
		"medium":    {emptyDirVolume("x", "Paper"), `unknown storage medium "Paper"`},
		"huge":      {emptyDirVolume("x", "HugePages"), "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
		"iscsi":     {vol("x", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}), "no volume plugin matched: iscsi volumes are not supported"},
		"csi":       {vol("x", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), "no volume plugin matched: csi volumes are not supported"},
		"field": {vol("x", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "a", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.phase"}}}}}), "unsupported fieldPath: status.phase"},
		"container": {vol("x", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "a", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "other", Resource: "limits.cpu"}}}}}), "container other not found"},
		"escape": {configMapVolume("there", corev1.KeyToPath{Key: "key", Path: "../../x"}), "invalid path: must not contain '..': ../../x"},
		"projected": {vol("x", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "b"}}},
			{PodCertificate: &corev1.PodCertificateProjection{}},
		}}}), `[configmaps "a" not found, secrets "b" not found, podCertificate projections are not supported: there is no source of them]`},
	} {
		t.Run(name, func(t *testing.T) {
			err := v.Prepare(t.Context(), pod(c.volume))
			all := volume.Failures(err)
			if len(all) != 1 || all[0].Volume != c.volume.Name || all[0].Err.Error() != c.want {
				t.Fatalf("got %v\nwant %s", err, c.want)
			}
			want := `MountVolume.SetUp failed for volume "` + c.volume.Name + `" : ` + c.want
			if err.Error() != want {
				t.Errorf("got %v\nwant %s", err, want)
			}
		})
	}
	if err := v.Release(t.Context(), "uid-1"); err != nil {
		t.Error(err)
	}
	if read(t, file) != "x" {
		t.Error("a host's file was changed")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "pods")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
