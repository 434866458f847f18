package scheduler

import (
	corev1 "k8s.io/api/core/v1"
)

// MaxScore is the best score of a priority after normalising; the worst is 0.
const MaxScore int64 = 100

// Priority ranks the nodes that can take a pod ("Score" upstream). A priority may also implement ScorePreparer,
// Normalizer and Local.
//
// Implementations must be safe for concurrent use, change neither the pod nor the node, and be deterministic.
type Priority interface {
	Plugin
	// Score returns how good the node is for the pod: 0 to MaxScore, or any number if the priority is a
	// Normalizer.
	Score(pod *corev1.Pod, node *NodeInfo) int64
}

// ScorePreparer is the part of a Priority that examines the pod once, when the feasible nodes are known
// ("PreScore" upstream).
type ScorePreparer interface {
	// PrepareScores returns how to score nodes for this pod. An error fails the attempt; it is retried with
	// back-off. Neither the snapshot nor the slice may be changed or kept.
	PrepareScores(pod *corev1.Pod, s *Snapshot, feasible []*NodeInfo) (PreparedScores, error)
}

// PreparedScores is the result of a ScorePreparer for a pod. The zero value scores every node with the
// priority's own Score.
type PreparedScores struct {
	// Skip means that the priority does not score this pod, and adds nothing to any node.
	Skip bool
	// Score, if set, replaces the priority's Score for this pod.
	Score func(node *NodeInfo) int64
	// Scores, if not nil, are the scores of the feasible nodes, in their order: for priorities that find them
	// faster together. The slice is not changed, and not read after the decision.
	Scores []int64
}

// Normalizer is the part of a Priority that maps the scores of all feasible nodes to the range of 0 to
// MaxScore.
type Normalizer interface {
	// Normalize changes the scores in place.
	Normalize(pod *corev1.Pod, scores []int64)
}

// Scale maps non-negative scores to the range of 0 to MaxScore by their maximum, rounding down; reversed, the
// lowest score becomes the best. Most of upstream's normalizers do this.
func Scale(scores []int64, reversed bool) {
	var most int64
	for _, s := range scores {
		most = max(most, s)
	}
	for i, s := range scores {
		if most > 0 {
			s = MaxScore * s / most
		}
		if reversed {
			s = MaxScore - s
		}
		scores[i] = s
	}
}

// PriorityFunc returns a Priority that calls a function with scores of 0 to MaxScore.
func PriorityFunc(name string, score func(pod *corev1.Pod, node *NodeInfo) int64) Priority {
	return priorityFunc{name, score}
}

type priorityFunc struct {
	name  string
	score func(*corev1.Pod, *NodeInfo) int64
}

func (f priorityFunc) Name() string                                { return f.name }
func (f priorityFunc) Score(pod *corev1.Pod, node *NodeInfo) int64 { return f.score(pod, node) }
