package alwayspullimages_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/alwayspullimages"
)

// pod has a container of each sort and a volume, all of which pull their images by a policy.
func pod(policy corev1.PullPolicy, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i", Image: "init", ImagePullPolicy: policy}},
		Containers:     []corev1.Container{{Name: "c", Image: image, ImagePullPolicy: policy}},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "debug", ImagePullPolicy: policy},
		}},
		Volumes: []corev1.Volume{{Name: "none"}, {Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{PullPolicy: policy}}}},
	}}
}

func TestPlugin(t *testing.T) {
	p := alwayspullimages.New()
	create := admissiontest.Create(t, pod(corev1.PullNever, "web"))
	admissiontest.TestPlugin(t, p, create)
	admissiontest.Admits(t, p, create, pod(corev1.PullAlways, "web"))
	other := admissiontest.Update(t, pod(corev1.PullNever, "web"), pod(corev1.PullNever, "web:2"))
	admissiontest.Admits(t, p, other, pod(corev1.PullAlways, "web:2"))
	for name, r := range map[string]*admission.Request{
		"no new image":          admissiontest.Update(t, pod(corev1.PullNever, "web"), pod(corev1.PullNever, "web")),
		"an image of another":   admissiontest.Update(t, pod(corev1.PullNever, "web"), pod(corev1.PullNever, "init")),
		"a subresource":         admissiontest.Create(t, pod(corev1.PullNever, "web"), admissiontest.Subresource("status")),
		"another resource":      admissiontest.Create(t, pod(corev1.PullNever, "web"), func(r *admission.Request) { r.Resource.Resource = "x" }),
		"another group's 'pod'": admissiontest.Create(t, pod(corev1.PullNever, "web"), func(r *admission.Request) { r.Resource.Group = "x" }),
	} {
		t.Run(name, func(t *testing.T) { admissiontest.Admits(t, p, r, r.Object.DeepCopyObject()) })
	}
	node := func(r *admission.Request) { r.Object = &corev1.Node{} }
	admissiontest.Refuses(t, p, admissiontest.Create(t, pod("", ""), node), "Resource was marked with kind Pod but was unable to be converted")
	if p.Handles(admission.Delete) || p.Handles(admission.Connect) {
		t.Error("it handles more than writes")
	}
}

// Whatever changed a policy after the plugin did is told, with its path.
func TestChangedLater(t *testing.T) {
	p := alwayspullimages.New()
	one := pod(corev1.PullAlways, "web")
	one.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	const of = `pods "p" is forbidden: `
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"one": {one, of + `spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"`},
		"all": {pod("", "web"), "[" + of + `spec.initContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always", ` +
			of + `spec.containers[0].imagePullPolicy: Unsupported value: "": supported values: "Always", ` +
			of + `spec.ephemeralContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always", ` +
			of + `spec.volumes[1].image.pullPolicy: Unsupported value: "": supported values: "Always"]`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.Validate(context.Background(), admissiontest.Create(t, c.pod)); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if err := p.Validate(context.Background(), admissiontest.Create(t, pod(corev1.PullAlways, "web"))); err != nil {
		t.Error(err)
	}
	none := admissiontest.Create(t, one, func(r *admission.Request) { r.Object = &corev1.Node{} })
	if err := p.Validate(context.Background(), none); err == nil || err.Error() != "Resource was marked with kind Pod but was unable to be converted" {
		t.Errorf("no pod: %v", err)
	}
	if err := p.Validate(context.Background(), admissiontest.Update(t, one, one)); err != nil {
		t.Error("an old pod cannot be updated:", err)
	}
}

func Example() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "web", ImagePullPolicy: corev1.PullIfNotPresent}}}}
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Object: pod}
	fmt.Println(alwayspullimages.New().Admit(context.Background(), r), pod.Spec.Containers[0].ImagePullPolicy)
	// Output: <nil> Always
}
