package decisions

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Document is an Entry as JSON has it.
type Document struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid,omitempty"`
	// Node is the chosen node, Message why there is none.
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
	// Nominated is the node on which room is made for the pod, by removing the Victims.
	Nominated string   `json:"nominatedNode,omitempty"`
	Victims   []Victim `json:"victims,omitempty"`
	// Nodes are what plugins say of the nodes.
	Nodes []Node `json:"nodes,omitempty"`
}

// Victim is a pod that is removed.
type Victim struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid,omitempty"`
}

// Node is why a node was refused, or its scores.
type Node struct {
	Name      string   `json:"name"`
	RefusedBy string   `json:"refusedBy,omitempty"`
	Reasons   []string `json:"reasons,omitempty"`
	// Hopeless means that preemption would not help.
	Hopeless bool    `json:"hopeless,omitempty"`
	Total    int64   `json:"total,omitempty"`
	Scores   []Score `json:"scores,omitempty"`
}

// Score is a plugin's score of a node; Weighted is its share of the total.
type Score struct {
	Plugin     string `json:"plugin"`
	Skipped    bool   `json:"skipped,omitempty"` // the plugin does not score the pod
	Weight     int64  `json:"weight"`
	Raw        int64  `json:"raw"`
	Normalized int64  `json:"normalized"`
	Weighted   int64  `json:"weighted"`
}

// Document returns the entry for JSON, without its nodes unless they are asked for.
func (e *Entry) Document(nodes bool) Document {
	d := Document{Time: e.At, Namespace: e.Pod.Namespace, Pod: e.Pod.Name, UID: string(e.Pod.UID), Node: e.Node}
	if e.Err != nil {
		d.Message = e.Err.Error()
	}
	if n := e.Preemption; n != nil {
		d.Nominated = n.Node
		for _, v := range n.Victims {
			d.Victims = append(d.Victims, victim(v))
		}
	}
	if !nodes {
		return d
	}
	for _, v := range e.Verdicts {
		n := Node{Name: v.Node, RefusedBy: v.RefusedBy, Total: v.Total}
		if r := v.Refusal; r != nil {
			n.Reasons, n.Hopeless = r.Reasons, r.Unresolvable
			if r.Err != nil {
				n.Reasons = []string{r.Err.Error()}
			}
		}
		for _, s := range v.Scores {
			n.Scores = append(n.Scores, Score{s.Priority, s.Skipped, s.Weight, s.Raw, s.Normalized, s.Weighted})
		}
		d.Nodes = append(d.Nodes, n)
	}
	return d
}

func victim(pod *corev1.Pod) Victim { return Victim{pod.Namespace, pod.Name, string(pod.UID)} }

// MarshalJSON returns the entry with its nodes.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.Document(true)) }
