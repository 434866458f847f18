package origin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podspec/origin"
)

func TestOrigin(t *testing.T) {
	type is struct{ fromAPI, mirror, static bool }
	for name, c := range map[string]struct {
		annotations map[string]string
		want        is
	}{
		"no annotation":     {nil, is{fromAPI: true}},
		"the API's":         {map[string]string{origin.Annotation: origin.API}, is{fromAPI: true}},
		"a file's":          {map[string]string{origin.Annotation: origin.File}, is{static: true}},
		"empty":             {map[string]string{origin.Annotation: ""}, is{static: true}},
		"a mirror":          {map[string]string{origin.Annotation: origin.File, origin.MirrorAnnotation: "h"}, is{mirror: true}},
		"a mirror, no file": {map[string]string{origin.MirrorAnnotation: ""}, is{fromAPI: true, mirror: true}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
		if got := (is{origin.FromAPI(pod), origin.Mirror(pod), origin.Static(pod)}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
