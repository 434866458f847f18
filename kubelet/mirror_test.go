package kubelet

import (
	"log/slog"
	"testing"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestForgedMirrors: anybody who may create pods can claim that one represents another. Only a static pod of the same
// name is reported through it.
func TestForgedMirrors(t *testing.T) {
	mirror := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("mirror-" + name), ResourceVersion: "7", Annotations: map[string]string{origin.MirrorAnnotation: "u"},
		}}
	}
	for name, c := range map[string]struct {
		source, mirror string
		followed       bool
	}{
		"a static pod's own":          {"file", "web", true},
		"of another name":             {"file", "other", false},
		"of a pod of the API":         {"", "web", false},
		"of one, under another name ": {"", "other", false},
	} {
		for _, early := range []bool{true, false} {
			s := newSender(nil, slog.New(slog.DiscardHandler))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
			if c.source != "" {
				pod.Annotations = map[string]string{origin.Annotation: c.source}
			}
			if early {
				s.mirror(mirror(c.mirror), false)
			}
			s.set(pod, corev1.PodStatus{Phase: corev1.PodRunning}, settled)
			if !early {
				s.mirror(mirror(c.mirror), false)
			}
			r := s.reports["u"]
			if told := r.pod.UID != "u"; told != c.followed || r.static != (c.source != "") {
				t.Errorf("%s, early %v: the status goes to %s", name, early, r.pod.UID)
			}
			if sends := !r.due.IsZero(); sends != (c.followed || c.source == "") {
				t.Errorf("%s, early %v: due %v", name, early, r.due)
			}
			s.mirror(mirror("forged"), false)
			if told := r.pod.UID != "u"; told != c.followed {
				t.Errorf("%s, early %v: another one changes that", name, early)
			}
			s.mirror(mirror("forged"), true)
			s.mirror(mirror(c.mirror), true)
			if len(s.mirrors) != 0 || r.static && !r.absent {
				t.Errorf("%s, early %v: the mirror is gone, and kept", name, early)
			}
		}
	}
}
