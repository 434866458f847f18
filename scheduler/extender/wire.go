package extender

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxScore is the best score that programs give.
const maxScore = 10

// The messages of the protocol, of which the names of fields are part.

// arguments ask about nodes for a pod, by the nodes or their names.
type arguments struct {
	Pod       *corev1.Pod
	Nodes     *corev1.NodeList
	NodeNames *[]string
}

// filtered are the nodes that can take a pod, and why others cannot.
type filtered struct {
	Nodes *struct {
		Items []struct {
			Metadata struct{ Name string }
		}
	}
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

// priority is the score of a node.
type priority struct {
	Host  string
	Score int64
}

// binding asks to bind a pod.
type binding struct {
	PodName, PodNamespace string
	PodUID                types.UID
	Node                  string
}

type bound struct{ Error string }

// preemption asks on which nodes to preempt which pods, by the pods or their UIDs.
type preemption struct {
	Pod                   *corev1.Pod
	NodeNameToVictims     map[string]*victims
	NodeNameToMetaVictims map[string]*metaVictims
}

type victims struct {
	Pods             []*corev1.Pod
	NumPDBViolations int64
}

type metaVictims struct {
	Pods             []*metaPod
	NumPDBViolations int64
}

type metaPod struct{ UID string }

type preempted struct {
	NodeNameToMetaVictims map[string]*metaVictims
}
