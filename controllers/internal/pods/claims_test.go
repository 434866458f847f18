package pods_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// TestClaims: each claim of a pod once, and what needs none is left out.
func TestClaims(t *testing.T) {
	claim := func(name string) corev1.Volume {
		return corev1.Volume{Name: "of-" + name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, claim("b"), claim("a"), claim("b"),
		{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}}}
	if got := pods.Claims(pod); !slices.Equal(got, []string{"b", "a", "web-own"}) {
		t.Errorf("got %q", got)
	}
}

// TestTemplateHash: the hash depends on the template and on the number of collisions, and on nothing else.
func TestTemplateHash(t *testing.T) {
	template := func(image string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
	}
	one := pods.TemplateHash(template("i"), nil)
	all := []string{one, pods.TemplateHash(template("j"), nil), pods.TemplateHash(template("i"), new(int32(0))), pods.TemplateHash(template("i"), new(int32(1)))}
	slices.Sort(all)
	if len(slices.Compact(all)) != 4 {
		t.Errorf("got %q", all)
	}
	if again := pods.TemplateHash(template("i"), nil); again != one {
		t.Errorf("%s, then %s", one, again)
	}
}
