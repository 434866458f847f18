package podspec_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podspec"
)

// contains reports whether whole has everything in part.
func contains(whole, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		w, ok := whole.(map[string]any)
		for key, value := range part {
			ok = ok && contains(w[key], value)
		}
		return ok
	case []any:
		w, ok := whole.([]any)
		if !ok || len(w) != len(part) {
			return false
		}
		for i := range part {
			if !contains(w[i], part[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(whole, part)
}

func asMap(t *testing.T, v any) map[string]any {
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefaultPod(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"spec", `{}`, `{restartPolicy: Always, dnsPolicy: ClusterFirst, terminationGracePeriodSeconds: 30, schedulerName: default-scheduler, securityContext: {}, enableServiceLinks: true}`},
		{"a negative grace period", `{terminationGracePeriodSeconds: -5}`, `{terminationGracePeriodSeconds: 1}`},
		{"service account", `{serviceAccount: a}`, `{serviceAccount: a, serviceAccountName: a}`},
		{"service account of both names", `{serviceAccount: a, serviceAccountName: b}`, `{serviceAccount: b, serviceAccountName: b}`},
		{"container", `{containers: [{image: x}]}`, `{containers: [{terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: Always}]}`},
		{"ephemeral container", `{ephemeralContainers: [{image: "x:1"}]}`, `{ephemeralContainers: [{terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: IfNotPresent}]}`},
		{"ports", `{containers: [{ports: [{containerPort: 80}]}]}`, `{containers: [{ports: [{containerPort: 80, protocol: TCP}]}]}`},
		{"ports on the host's network", `{hostNetwork: true, containers: [{ports: [{containerPort: 80}]}], initContainers: [{ports: [{containerPort: 81, hostPort: 82}]}]}`, `{containers: [{ports: [{hostPort: 80}]}], initContainers: [{ports: [{hostPort: 82}]}]}`},
		{"requests from limits", `{containers: [{resources: {limits: {cpu: 1, memory: 2}, requests: {cpu: 100m}}}], initContainers: [{resources: {limits: {cpu: 1}}}]}`, `{containers: [{resources: {requests: {cpu: 100m, memory: "2"}}}], initContainers: [{resources: {requests: {cpu: "1"}}}]}`},
		{"finest quantity", `{containers: [{resources: {requests: {cpu: 1500u}}}], overhead: {cpu: 1u}}`, `{containers: [{resources: {requests: {cpu: 2m}}}], overhead: {cpu: 1m}}`},
		{"probe", `{containers: [{livenessProbe: {httpGet: {port: 80}}, startupProbe: {grpc: {port: 1}}}]}`, `{containers: [{livenessProbe: {timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3, httpGet: {path: /, scheme: HTTP}}, startupProbe: {periodSeconds: 10, grpc: {service: ""}}}]}`},
		{"hooks", `{containers: [{lifecycle: {preStop: {httpGet: {port: 80}}}}]}`, `{containers: [{lifecycle: {preStop: {httpGet: {path: /, scheme: HTTP}}}}]}`},
		{"environment", `{containers: [{env: [{valueFrom: {fieldRef: {fieldPath: a}}}, {valueFrom: {fileKeyRef: {key: a}}}]}]}`, `{containers: [{env: [{valueFrom: {fieldRef: {apiVersion: v1}}}, {valueFrom: {fileKeyRef: {optional: false}}}]}]}`},
		{"volume without a kind", `{volumes: [{name: a}]}`, `{volumes: [{emptyDir: {}}]}`},
		{"volumes of files", `{volumes: [{secret: {}}, {configMap: {defaultMode: 256}}, {downwardAPI: {items: [{fieldRef: {}}]}}, {hostPath: {path: /}}, {image: {reference: "x:1"}}]}`, `{volumes: [{secret: {defaultMode: 420}}, {configMap: {defaultMode: 256}}, {downwardAPI: {defaultMode: 420, items: [{fieldRef: {apiVersion: v1}}]}}, {hostPath: {type: ""}}, {image: {pullPolicy: IfNotPresent}}]}`},
		{"projected volume", `{volumes: [{projected: {sources: [{serviceAccountToken: {path: a}}, {downwardAPI: {items: [{fieldRef: {}}]}}]}}]}`, `{volumes: [{projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3600}}, {downwardAPI: {items: [{fieldRef: {apiVersion: v1}}]}}]}}]}`},
		{"ephemeral claim", `{volumes: [{ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1500u}}}}}}]}`, `{volumes: [{ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem, resources: {requests: {storage: 2m}}}}}}]}`},
		{"legacy volumes", `{volumes: [{iscsi: {}}, {rbd: {}}, {azureDisk: {}}, {scaleIO: {}}]}`, `{volumes: [{iscsi: {iscsiInterface: default}}, {rbd: {pool: rbd, user: admin, keyring: /etc/ceph/keyring}}, {azureDisk: {cachingMode: ReadWrite, fsType: ext4, readOnly: false, kind: Shared}}, {scaleIO: {storageMode: ThinProvisioned, fsType: xfs}}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			var want map[string]any
			if err := yaml.UnmarshalStrict([]byte(c.in), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(c.out), &want); err != nil {
				t.Fatal(err)
			}
			podspec.DefaultPod(pod)
			if got := asMap(t, pod.Spec); !contains(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			again := pod.DeepCopy()
			podspec.DefaultPod(again)
			if !reflect.DeepEqual(again, pod) {
				t.Error("defaults of a defaulted pod")
			}
		})
	}
}

func TestTemplatesHaveFewerDefaults(t *testing.T) {
	spec := &corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{
		Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}},
	}}}
	grace := int64(-1)
	spec.TerminationGracePeriodSeconds = &grace
	podspec.Default(spec)
	c := spec.Containers[0]
	if spec.EnableServiceLinks != nil || c.Ports[0].HostPort != 0 || c.Resources.Requests != nil || *spec.TerminationGracePeriodSeconds != -1 {
		t.Errorf("got %+v", spec)
	}
}

func TestPullPolicy(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "nginx:1.29": corev1.PullIfNotPresent,
		"nginx" + digest: corev1.PullIfNotPresent, "nginx:latest" + digest: corev1.PullAlways, "nginx:1" + digest: corev1.PullIfNotPresent,
		"reg.example.com:5000/a/b": corev1.PullAlways, "reg.example.com:5000/a/b:c": corev1.PullIfNotPresent,
		"UPPER": corev1.PullIfNotPresent, "": corev1.PullIfNotPresent, "a@sha256:short": corev1.PullIfNotPresent,
	} {
		spec := &corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}
		podspec.Default(spec)
		if got := spec.Containers[0].ImagePullPolicy; got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}

func TestDefaultAddresses(t *testing.T) {
	for _, c := range []struct {
		name    string
		in, out corev1.PodStatus
	}{
		{"none", corev1.PodStatus{}, corev1.PodStatus{}},
		{"one", corev1.PodStatus{PodIP: "a"}, corev1.PodStatus{PodIP: "a", PodIPs: []corev1.PodIP{{IP: "a"}}}},
		{"a list", corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "a"}, {IP: "b"}}}, corev1.PodStatus{PodIP: "a", PodIPs: []corev1.PodIP{{IP: "a"}, {IP: "b"}}}},
		{"contradiction", corev1.PodStatus{PodIP: "c", PodIPs: []corev1.PodIP{{IP: "a"}}}, corev1.PodStatus{PodIP: "c", PodIPs: []corev1.PodIP{{IP: "c"}}}},
	} {
		pod := &corev1.Pod{Status: c.in}
		podspec.DefaultPod(pod)
		if !reflect.DeepEqual(pod.Status, c.out) {
			t.Errorf("%s: got %+v", c.name, pod.Status)
		}
	}
}
