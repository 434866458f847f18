package qos_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podspec/qos"
)

func TestClass(t *testing.T) {
	for spec, want := range map[string]corev1.PodQOSClass{
		`{}`:                 "BestEffort",
		`{containers: [{}]}`: "BestEffort",
		`{containers: [{resources: {requests: {cpu: 0}, limits: {memory: 0}}}]}`:                                                                                               "BestEffort",
		`{containers: [{resources: {requests: {example.com/gpu: 1}}}]}`:                                                                                                        "BestEffort",
		`{containers: [{resources: {requests: {cpu: 1}}}]}`:                                                                                                                    "Burstable",
		`{containers: [{resources: {limits: {cpu: 1, memory: 1}}}]}`:                                                                                                           "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}}}]}`:                                                                                                         "Burstable",
		`{containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 1}}}]}`:                                                                                                  "Burstable",
		`{containers: [{resources: {requests: {memory: 1}, limits: {memory: 1}}}]}`:                                                                                            "Burstable",
		`{containers: [{resources: {requests: {cpu: 1}, limits: {memory: 1}}}]}`:                                                                                               "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 2, memory: 1}}}]}`:                                                                            "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 2}}}]}`:                                                                            "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}]}`:                                                                            "Guaranteed",
		`{containers: [{resources: {requests: {cpu: 1000m, memory: 1024Mi}, limits: {cpu: 1, memory: 1Gi}}}]}`:                                                                 "Guaranteed",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}, {}]}`:                                                                        "Burstable",
		`{containers: [{}, {resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}]}`:                                                                        "Burstable",
		`{containers: [{resources: {requests: {cpu: 1}}}, {}, {}]}`:                                                                                                            "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}, {resources: {requests: {cpu: 2, memory: 2}, limits: {cpu: 2, memory: 2}}}]}`: "Guaranteed",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}], initContainers: [{}]}`:                                                      "Burstable",
		`{containers: [{}], initContainers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}]}`:                                                      "Burstable",
		`{containers: [{}], resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}`:                                                                          "Guaranteed",
		`{containers: [{}], resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 2, memory: 1}}}`:                                                                          "Burstable",
		`{containers: [{}], resources: {requests: {cpu: 1, memory: 1}}}`:                                                                                                       "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}], resources: {requests: {cpu: 1}, limits: {cpu: 1}}}`:                         "Burstable",
		`{containers: [{resources: {requests: {cpu: 1}}}], resources: {}}`:                                                                                                     "Burstable",
		`{containers: [{resources: {requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}}}], resources: {}}`:                                                             "Guaranteed",
	} {
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
			t.Fatal(err)
		}
		if got := qos.Class(&pod); got != want {
			t.Errorf("%s: got %s, want %s", spec, got, want)
		}
		pod.Status.QOSClass = "in the status"
		if of, computed := qos.Class(&pod), qos.Compute(&pod); of != "in the status" || computed != want {
			t.Errorf("%s with a class in the status: got %s, computed %s", spec, of, computed)
		}
	}
}
