package kubelet

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// admitted returns a pod with the requests in the pairs of names and amounts.
func admitted(change func(*corev1.Pod), asks ...string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}}}
	pod.Spec.Containers[0].Resources.Requests = amounts(asks...)
	if change != nil {
		change(pod)
	}
	return pod
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestAdmitResources(t *testing.T) {
	room := amounts("cpu", "2", "memory", "1Gi", "pods", "3", "example.com/gpu", "1")
	others := []*corev1.Pod{admitted(nil, "cpu", "1500m"), admitted(nil, "memory", "512Mi", "example.com/gpu", "1")}
	for name, c := range map[string]struct {
		others []*corev1.Pod
		asks   []string
		want   string
	}{
		"just fits":                                            {others, []string{"cpu", "500m", "memory", "512Mi"}, ""},
		"a thousandth too much":                                {others, []string{"cpu", "501m"}, "OutOfcpu"},
		"a byte too much":                                      {others, []string{"memory", "536870913"}, "OutOfmemory"},
		"the first shortage":                                   {others, []string{"memory", "2Gi", "cpu", "4"}, "OutOfcpu"},
		"resources in use":                                     {others, []string{"example.com/gpu", "1"}, "OutOfexample.com/gpu"},
		"nothing of what is taken":                             {others, []string{"example.com/gpu", "0"}, ""},
		"an extended resource that the node lacks":             {others, []string{"example.com/other", "5"}, ""},
		"a native resource that the node lacks":                {others, []string{"hugepages-2Mi", "2Mi"}, "OutOfhugepages-2Mi"},
		"a resource of Kubernetes' domain that the node lacks": {others, []string{"scheduling.kubernetes.io/foo", "1"}, "OutOfscheduling.kubernetes.io/foo"},
		"what only quotas know":                                {others, []string{"requests.example.com/foo", "1"}, "OutOfrequests.example.com/foo"},
		"memory before others":                                 {others, []string{"ephemeral-storage", "1", "hugepages-2Mi", "2Mi", "memory", "2Gi"}, "OutOfmemory"},
		"others by their names":                                {others, []string{"hugepages-2Mi", "2Mi", "example.com/gpu", "1"}, "OutOfexample.com/gpu"},
		"the last one that fits":                               {others, nil, ""},
		"one too many":                                         {append(others[:2:2], admitted(nil)), nil, "OutOfpods"},
		"too many, and cpu is left":                            {append(others[:2:2], admitted(nil)), []string{"cpu", "1m"}, "OutOfpods"},
	} {
		refusal := admit(admitted(nil, c.asks...), c.others, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, room)
		if got := reasonOf(refusal); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func reasonOf(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Reason
}

func TestAdmitToTheNode(t *testing.T) {
	tolerates := func(list ...corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = list }
	}
	execute, schedule := corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule
	for name, c := range map[string]struct {
		effect corev1.TaintEffect
		change func(*corev1.Pod)
		want   string
	}{
		"a NoSchedule taint":                 {schedule, nil, ""},
		"a NoExecute taint":                  {execute, nil, "TaintToleration"},
		"tolerated with its value":           {execute, tolerates(corev1.Toleration{Key: "k", Value: "v"}), ""},
		"tolerated with equal":               {execute, tolerates(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: execute}), ""},
		"another value":                      {execute, tolerates(corev1.Toleration{Key: "k", Value: "other"}), "TaintToleration"},
		"another key":                        {execute, tolerates(corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}), "TaintToleration"},
		"another effect":                     {execute, tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: schedule}), "TaintToleration"},
		"any taint":                          {execute, tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), ""},
		"no key, and equal":                  {execute, tolerates(corev1.Toleration{Value: "v"}), "TaintToleration"},
		"an unknown operator":                {execute, tolerates(corev1.Toleration{Key: "k", Operator: "Like", Value: "v"}), "TaintToleration"},
		"the second tolerates it":            {execute, tolerates(corev1.Toleration{Key: "other"}, corev1.Toleration{Key: "k", Value: "v"}), ""},
		"another node's":                     {schedule, func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, "NodeName"},
		"no node's":                          {schedule, func(p *corev1.Pod) { p.Spec.NodeName = "" }, ""},
		"with a selector":                    {schedule, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} }, ""},
		"with another's selector":            {schedule, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }, "NodeAffinity"},
		"labelled for this operating system": {schedule, func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelOSStable: runtime.GOOS} }, ""},
		"labelled for another":               {schedule, func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelOSStable: "plan9"} }, "PodOSSelectorNodeLabelDoesNotMatch"},
		"for this operating system":          {schedule, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.OSName(runtime.GOOS)} }, ""},
		"for another":                        {schedule, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }, "PodOSNotSupported"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
		node.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: c.effect}}
		if got := reasonOf(admit(admitted(c.change), nil, node, amounts("pods", "1"))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAdmitPorts(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	port := func(n int32, protocol corev1.Protocol, ip string) *corev1.Pod {
		return admitted(func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: n, Protocol: protocol, HostIP: ip}}
		})
	}
	early := func(policy *corev1.ContainerRestartPolicy) *corev1.Pod {
		return admitted(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "init", RestartPolicy: policy, Ports: []corev1.ContainerPort{{HostPort: 80}}}}
		})
	}
	for name, c := range map[string]struct {
		one, two *corev1.Pod
		taken    bool
	}{
		"the same":                   {port(80, "TCP", ""), port(80, "TCP", ""), true},
		"TCP by default":             {port(80, "", ""), port(80, "TCP", ""), true},
		"another number":             {port(80, "TCP", ""), port(81, "TCP", ""), false},
		"another protocol":           {port(80, "TCP", ""), port(80, "UDP", ""), false},
		"none on the host":           {port(0, "TCP", ""), port(0, "TCP", ""), false},
		"two addresses":              {port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.2"), false},
		"one address":                {port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.1"), true},
		"one address of all":         {port(80, "TCP", "10.0.0.1"), port(80, "TCP", ""), true},
		"all are all":                {port(80, "TCP", "0.0.0.0"), port(80, "TCP", ""), true},
		"the wildcard includes each": {port(80, "TCP", "0.0.0.0"), port(80, "TCP", "10.0.0.1"), true},
		"a sidecar's":                {port(80, "TCP", ""), early(&always), true},
		"an init container's":        {port(80, "TCP", ""), early(nil), false},
	} {
		for _, pods := range [][2]*corev1.Pod{{c.one, c.two}, {c.two, c.one}} {
			refusal := admit(pods[0], pods[1:], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, amounts("pods", "9"))
			if got := reasonOf(refusal) == "NodePorts"; got != c.taken {
				t.Errorf("%s: %v", name, refusal)
			}
		}
	}
}
