package podspec_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podspec"
)

// spec decodes a pod spec from YAML.
func spec(t *testing.T, text string) corev1.PodSpec {
	var s corev1.PodSpec
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// withOffFeatures uses every field whose feature is off by default.
const withOffFeatures = `
schedulingGroup: {podGroupName: g}
evictionResponders: [{name: example.com/r}]
volumes:
- {name: a, emptyDir: {mode: 511}}
- {name: b, secret: {secretName: s, defaultUser: 1, items: [{key: k, path: p, user: 1}]}}
- {name: c, configMap: {name: c, defaultUser: 1}}
- {name: d, downwardAPI: {defaultUser: 1, items: [{path: p, user: 1}]}}
- {name: e, projected: {defaultUser: 1, sources: [{serviceAccountToken: {path: t, user: 1}}, {secret: {items: [{key: k, path: p, user: 1}]}}]}}
containers:
- name: web
  lifecycle: {stopSignal: SIGTERM}
  volumeMounts: [{name: a, mountPath: /a, bindMountOptions: [noexec]}]
  livenessProbe: {httpGet: {port: 80, protocol: HTTP2}}
  readinessProbe: {grpc: {port: 80, mode: TLS}}
`

const withoutOffFeatures = `
volumes:
- {name: a, emptyDir: {}}
- {name: b, secret: {secretName: s, items: [{key: k, path: p}]}}
- {name: c, configMap: {name: c}}
- {name: d, downwardAPI: {items: [{path: p}]}}
- {name: e, projected: {sources: [{serviceAccountToken: {path: t}}, {secret: {items: [{key: k, path: p}]}}]}}
containers:
- name: web
  volumeMounts: [{name: a, mountPath: /a}]
  livenessProbe: {httpGet: {port: 80}}
  readinessProbe: {grpc: {port: 80}}
`

func TestDrop(t *testing.T) {
	full, bare := spec(t, withOffFeatures), spec(t, withoutOffFeatures)
	annotations := map[string]string{"pod.beta.kubernetes.io/init-containers": "[]", "a": "b"}
	for name, c := range map[string]struct{ old, want *corev1.PodSpec }{
		"new":       {nil, &bare},
		"not used":  {&bare, &bare},
		"used once": {&full, &full},
	} {
		got := *full.DeepCopy()
		podspec.Drop(&got, annotations, c.old)
		if !reflect.DeepEqual(&got, c.want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if len(annotations) != 1 {
		t.Errorf("annotations %v", annotations)
	}
	template := &corev1.PodTemplateSpec{Spec: *full.DeepCopy()}
	if podspec.DropTemplate(template, nil); !reflect.DeepEqual(template.Spec, bare) {
		t.Errorf("template %+v", template)
	}
}

func TestDropStatus(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Status.VolumeHealth = []corev1.PodVolumeHealth{{Name: "a"}}
	pod.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{VolumeMounts: []corev1.VolumeMountStatus{{VolumeStatus: &corev1.VolumeStatus{}}}}}
	used := pod.DeepCopy()
	if podspec.DropPod(used, pod); !reflect.DeepEqual(used, pod) {
		t.Errorf("what is used already was dropped: %+v", used.Status)
	}
	podspec.DropPod(pod, nil)
	if s := pod.Status; s.VolumeHealth != nil || s.NodeAllocatableResourceClaimStatuses != nil || s.ContainerStatuses[0].VolumeMounts[0].VolumeStatus != nil {
		t.Errorf("got %+v", s)
	}
}

func TestMergeLabelKeys(t *testing.T) {
	pod := &corev1.Pod{Spec: spec(t, `
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - {topologyKey: zone, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [app, none], mismatchLabelKeys: [tier]}
    - {topologyKey: zone, matchLabelKeys: [app]}
topologySpreadConstraints:
- {labelSelector: {}, matchLabelKeys: [tier]}
`)}
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	podspec.MergeLabelKeys(pod)
	terms := pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if got := fmt.Sprint(terms[0].LabelSelector.MatchExpressions); got != "[{app In [web]} {tier NotIn [front]}]" {
		t.Errorf("affinity %s", got)
	}
	if terms[1].LabelSelector != nil {
		t.Error("a term without a selector got one")
	}
	if got := fmt.Sprint(pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchExpressions); got != "[{tier In [front]}]" {
		t.Errorf("spread %s", got)
	}
}

func TestAppArmorFromAnnotations(t *testing.T) {
	for annotation, want := range map[string]string{
		"unconfined": "Unconfined", "runtime/default": "RuntimeDefault", "localhost/p": "Localhost p", "localhost/": "", "other": "",
	} {
		pod := &corev1.Pod{Spec: spec(t, `{containers: [{name: a}, {name: b, securityContext: {appArmorProfile: {type: Unconfined}}}]}`)}
		pod.Annotations = map[string]string{
			"container.apparmor.security.beta.kubernetes.io/a": annotation,
			"container.apparmor.security.beta.kubernetes.io/b": "runtime/default",
		}
		podspec.AppArmorFromAnnotations(pod)
		got := ""
		if sc := pod.Spec.Containers[0].SecurityContext; sc != nil {
			got = string(sc.AppArmorProfile.Type)
			if p := sc.AppArmorProfile.LocalhostProfile; p != nil {
				got += " " + *p
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", annotation, got, want)
		}
		if pod.Spec.Containers[1].SecurityContext.AppArmorProfile.Type != corev1.AppArmorProfileTypeUnconfined {
			t.Error("a field was overwritten")
		}
	}
}

func TestDefaultPodResources(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{`{containers: [{resources: {requests: {cpu: 1}}}]}`, `null`},
		{`{resources: {}, containers: [{resources: {requests: {cpu: 1}}}]}`, `{}`},
		{`{resources: {limits: {memory: 4Gi}}, containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}, {resources: {requests: {cpu: 1}}}]}`, `{limits: {memory: 4Gi}, requests: {cpu: "2", memory: 1Gi}}`},
		{`{resources: {limits: {cpu: 4}}, containers: [{}]}`, `{limits: {cpu: "4"}, requests: {cpu: "4"}}`},
		{`{resources: {requests: {cpu: 5}}, containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}`, `{limits: {cpu: "5"}, requests: {cpu: "5"}}`},
		{`{resources: {requests: {cpu: 1}}, containers: [{resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}}}]}`, `{limits: {cpu: "2", hugepages-2Mi: 4Mi}, requests: {cpu: "1", hugepages-2Mi: 4Mi}}`},
	} {
		pod := &corev1.Pod{Spec: spec(t, c.in)}
		podspec.DefaultPodResources(pod)
		var want *corev1.ResourceRequirements
		if err := yaml.Unmarshal([]byte(c.out), &want); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(pod.Spec.Resources)
		expected, _ := json.Marshal(want)
		if string(got) != string(expected) {
			t.Errorf("%s: got %s, want %s", c.in, got, expected)
		}
	}
}

func TestValidateTemplate(t *testing.T) {
	path := field.NewPath("spec", "template")
	template := &corev1.PodTemplateSpec{Spec: spec(t, `{containers: [{name: web, image: " "}]}`)}
	template.Labels = map[string]string{"app": "web"}
	podspec.Default(&template.Spec)
	if errs := podspec.ValidateTemplate(template, path, podspec.Options{}); len(errs) > 0 {
		t.Errorf("a good template: %v", errs)
	}
	template.Labels["bad key"] = "x"
	template.Annotations = map[string]string{"controller.kubernetes.io/pod-deletion-cost": "x"}
	template.Spec.HostNetwork = true
	template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}, {ContainerPort: 81, HostPort: 82, Protocol: "TCP"}}
	template.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}}
	want := []string{
		`spec.template.labels: Invalid value: "bad key"`,
		`spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a 32bit integer`,
		"spec.template.spec.containers[0].ports[1].hostPort: Invalid value: 82: must match `containerPort` when `hostNetwork` is true",
		"spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
	}
	text := podspec.ValidateTemplate(template, path, podspec.Options{}).ToAggregate().Error()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("missing %q in %s", w, text)
		}
	}
	text = podspec.ValidateTemplate(template, path, podspec.TemplateUpdate(template)).ToAggregate().Error()
	if strings.Contains(text, "deletion-cost") {
		t.Error("an old deletion cost was refused")
	}
}

func TestValidateSpec(t *testing.T) {
	s := spec(t, `{hostNetwork: true, containers: [{name: web, image: x, ports: [{containerPort: 80}]}]}`)
	podspec.Default(&s)
	path := field.NewPath("spec")
	if errs := podspec.ValidateSpec(&s, nil, path, podspec.Options{}); len(errs) > 0 {
		t.Errorf("in a template: %v", errs)
	}
	if errs := podspec.ValidateSpec(&s, nil, path, podspec.Options{Pod: true}); len(errs) != 1 || errs[0].Field != "spec.containers[0].ports[0].hostPort" {
		t.Errorf("in a pod: %v", errs)
	}
}

// FuzzPod passes everything that can be decoded to every rule; none may panic, and defaults must be idempotent.
func FuzzPod(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"spec":{"containers":[{}],"volumes":[{"ephemeral":{"volumeClaimTemplate":{}}},{"projected":{"sources":[{}]}},{"iscsi":{}}]}}`,
		`{"spec":{"initContainers":[{"restartPolicy":"Always","livenessProbe":{}}],"ephemeralContainers":[{"name":"a"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}}}}`,
		`{"status":{"podIPs":[{"ip":"x"},{}],"hostIPs":[{}],"containerStatuses":[{"state":{"terminated":{}}}]},"metadata":{"annotations":{"kubernetes.io/config.mirror":""}}}`,
		`{"spec":{"resources":{"limits":{"hugepages-":"1","cpu":"1e400"}},"schedulingGates":[{}],"topologySpreadConstraints":[{"matchLabelKeys":["a"]}],"os":{}}}`,
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		pod, old := &corev1.Pod{}, &corev1.Pod{}
		if json.Unmarshal(a, pod) != nil || json.Unmarshal(b, old) != nil {
			return
		}
		podspec.ValidateCreate(pod.DeepCopy())
		for _, judge := range []func(pod, old *corev1.Pod) field.ErrorList{
			podspec.ValidateUpdate, podspec.ValidateStatusUpdate, podspec.ValidateEphemeralContainersUpdate, podspec.ValidateResize,
		} {
			judge(pod.DeepCopy(), old)
		}
		podspec.DropPod(pod, old)
		podspec.MergeLabelKeys(pod)
		podspec.AppArmorFromAnnotations(pod)
		podspec.DefaultPodResources(pod)
		qos.Class(pod)
		podspec.DefaultPod(pod)
		again := pod.DeepCopy()
		if podspec.DefaultPod(again); !reflect.DeepEqual(again, pod) {
			t.Error("defaults of a defaulted pod")
		}
		podspec.ValidateCreate(pod)
	})
}
