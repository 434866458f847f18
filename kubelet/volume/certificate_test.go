package volume_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume"
	"github.com/keelson-dev/keelson/kubelet/volume/podcertificates"
)

// issuer issues what it is asked for.
type issuer struct {
	bundle podcertificates.Bundle
	err    error
	asked  []podcertificates.Request
	forgot []types.UID
}

func (i *issuer) Certificate(_ context.Context, r podcertificates.Request) (podcertificates.Bundle, error) {
	i.asked = append(i.asked, r)
	return i.bundle, i.err
}

func (i *issuer) Forget(pod types.UID) { i.forgot = append(i.forgot, pod) }

// TestCertificates: a pod's certificate is in the files that it names, is replaced when it has changed, and ends with the pod.
func TestCertificates(t *testing.T) {
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) {
		in := &issuer{err: podcertificates.ErrPending}
		v, err := volume.New(dir, volume.Sources{Certificates: in}, volume.Options{Rootless: true})
		if err != nil {
			t.Fatal(err)
		}
		both := &corev1.PodCertificateProjection{SignerName: "example.com/x", CredentialBundlePath: "all.pem"}
		apart := &corev1.PodCertificateProjection{SignerName: "example.com/y", KeyPath: "key.pem", CertificateChainPath: "chain.pem"}
		p := pod(vol("tls", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o640)), Sources: []corev1.VolumeProjection{
			{PodCertificate: both}, {PodCertificate: apart},
		}}}))
		if err := v.Prepare(t.Context(), p); err == nil || err.Error() != `MountVolume.SetUp failed for volume "tls" : credential bundle is not issued yet` || !errors.Is(err, podcertificates.ErrPending) {
			t.Fatal(err)
		}
		in.err, in.asked, in.bundle = nil, nil, podcertificates.Bundle{Key: []byte("key\n"), Chain: []byte("chain\n"), Next: time.Now().Add(time.Hour)}
		prepare(t, v, p)
		if len(in.asked) != 2 || in.asked[0].Projection != both || in.asked[1].Projection != apart || in.asked[1].Source != 1 || in.asked[1].Volume != "tls" || in.asked[1].Pod != p {
			t.Errorf("asked for %+v", in.asked)
		}
		if next := v.NextRefresh(p.UID); time.Until(next) != time.Hour {
			t.Errorf("looked at again in %v", time.Until(next))
		}
		at := mounts(t, v, request(p))["/tls"].HostPath
		for name, want := range map[string]string{"all.pem": "key\nchain\n", "key.pem": "key\n", "chain.pem": "chain\n"} {
			if got := read(t, filepath.Join(at, name)); got != want {
				t.Errorf("%s: %q", name, got)
			}
			if info, err := os.Stat(filepath.Join(at, name)); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		in.bundle.Key = []byte("new\n")
		prepare(t, v, p)
		if got := read(t, filepath.Join(at, "all.pem")); got != "new\nchain\n" {
			t.Errorf("replaced by %q", got)
		}
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(7))}
		in.bundle.Key = []byte("newer\n")
		prepare(t, v, p)
		if info, err := os.Stat(filepath.Join(at, "key.pem")); err != nil || info.Mode().Perm()&0o7 != 0 {
			t.Errorf("with a group: %v, %v", info.Mode(), err)
		}
		release(t, v, dir, p.UID)
		if len(in.forgot) != 1 || in.forgot[0] != p.UID || !v.NextRefresh(p.UID).IsZero() || v.Remembered() != 0 {
			t.Errorf("forgot %v", in.forgot)
		}
	})
}
