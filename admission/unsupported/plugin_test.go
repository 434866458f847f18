package unsupported_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/unsupported"
)

const (
	affinity     = ".affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution"
	antiAffinity = ".affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"
	spread       = ".topologySpreadConstraints with whenUnsatisfiable ScheduleAnyway"
	regardless   = ": not supported, pods are placed regardless of it"
)

func near(s *corev1.PodSpec) {
	s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{}, {}}}}
}

func apart(s *corev1.PodSpec) {
	s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{}}}}
}

func spreadBy(when corev1.UnsatisfiableConstraintAction) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, corev1.TopologySpreadConstraint{WhenUnsatisfiable: when})
	}
}

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: "x"} }

func pod(change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta()}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

func template(change ...func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: pod(change...).Spec}
}

func TestWarnings(t *testing.T) {
	wishing := template(near)
	for name, tt := range map[string]struct {
		request *admission.Request
		want    []string
	}{
		"nothing": {admissiontest.Create(t, pod()), nil},
		"empty": {admissiontest.Create(t, pod(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
		})), nil},
		"a requirement":  {admissiontest.Create(t, pod(spreadBy(corev1.DoNotSchedule))), nil},
		"affinity":       {admissiontest.Create(t, pod(near)), []string{"spec" + affinity}},
		"anti-affinity":  {admissiontest.Create(t, pod(apart)), []string{"spec" + antiAffinity}},
		"spread":         {admissiontest.Create(t, pod(spreadBy(corev1.DoNotSchedule), spreadBy(corev1.ScheduleAnyway))), []string{"spec" + spread}},
		"two":            {admissiontest.Create(t, pod(apart, spreadBy(corev1.ScheduleAnyway))), []string{"spec" + antiAffinity, "spec" + spread}},
		"again":          {admissiontest.Update(t, pod(near), pod(near)), nil},
		"one more":       {admissiontest.Update(t, pod(near), pod(near, spreadBy(corev1.ScheduleAnyway))), []string{"spec" + spread}},
		"its status":     {admissiontest.Update(t, pod(), pod(near), admissiontest.Subresource("status")), nil},
		"something else": {admissiontest.Create(t, &corev1.ConfigMap{ObjectMeta: meta()}), nil},
		"a pod template": {admissiontest.Create(t, &corev1.PodTemplate{ObjectMeta: meta(), Template: wishing}), []string{"template.spec" + affinity}},
		"a controller":   {admissiontest.Create(t, &corev1.ReplicationController{ObjectMeta: meta(), Spec: corev1.ReplicationControllerSpec{Template: &wishing}}), []string{"spec.template.spec" + affinity}},
		"without any":    {admissiontest.Create(t, &corev1.ReplicationController{ObjectMeta: meta()}), nil},
		"a deployment":   {admissiontest.Create(t, &appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Template: wishing}}), []string{"spec.template.spec" + affinity}},
		"a replica set":  {admissiontest.Create(t, &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Template: wishing}}), []string{"spec.template.spec" + affinity}},
		"a stateful set": {admissiontest.Create(t, &appsv1.StatefulSet{ObjectMeta: meta(), Spec: appsv1.StatefulSetSpec{Template: wishing}}), []string{"spec.template.spec" + affinity}},
		"a daemon set":   {admissiontest.Create(t, &appsv1.DaemonSet{ObjectMeta: meta(), Spec: appsv1.DaemonSetSpec{Template: wishing}}), []string{"spec.template.spec" + affinity}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want []string
			p := unsupported.New(func(_ context.Context, text string) { got = append(got, text) })
			if err := p.Validate(t.Context(), tt.request); err != nil {
				t.Fatal(err)
			}
			for _, field := range tt.want {
				want = append(want, field+regardless)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			admissiontest.TestPlugin(t, unsupported.New(func(context.Context, string) {}), tt.request)
		})
	}
}

func Example() {
	plugin := unsupported.New(func(_ context.Context, text string) { fmt.Println("Warning:", text) }) // in a server, registry.Warn
	spread := []corev1.TopologySpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}}
	r := &admission.Request{Operation: admission.Create, Object: &corev1.Pod{Spec: corev1.PodSpec{TopologySpreadConstraints: spread}}}
	fmt.Println(plugin.Validate(context.Background(), r))
	// Output:
	// Warning: spec.topologySpreadConstraints with whenUnsatisfiable ScheduleAnyway: not supported, pods are placed regardless of it
	// <nil>
}
