package scheduler

import (
	corev1 "k8s.io/api/core/v1"
)

// MaxScore is the best score that a priority gives, after normalising; the worst is 0.
const MaxScore int64 = 100

// Priority ranks the nodes that can take a pod ("Score" upstream). A priority may also
// implement ScorePreparer, Normalizer and Local.
//
// Implementations are safe for concurrent use, change neither the pod nor the node, and answer
// the same question always the same way.
type Priority interface {
	// Name tells priorities apart: no two of a profile share one. One type may be both a
	// Predicate and a Priority under one name.
	Name() string
	// Score returns how good the node is for the pod: 0 to MaxScore, or any number at all from
	// a Normalizer.
	Score(pod *corev1.Pod, node *NodeInfo) int64
}

// ScorePreparer is the part of a Priority that looks at the pod once, when it is known which
// nodes can take it ("PreScore" upstream).
type ScorePreparer interface {
	// PrepareScores returns how to score nodes for this pod. An error fails the attempt; it is
	// retried with back-off. Neither the snapshot nor the slice may be changed or kept.
	PrepareScores(pod *corev1.Pod, s *Snapshot, feasible []*NodeInfo) (PreparedScores, error)
}

// PreparedScores is what a ScorePreparer found out about a pod. The zero value scores every
// node with the priority's own Score.
type PreparedScores struct {
	// Skip: the priority has no opinion on this pod, and adds nothing to any node.
	Skip bool
	// Score, when set, takes the place of the priority's Score for this pod.
	Score func(node *NodeInfo) int64
}

// Normalizer is the part of a Priority that brings the scores of all feasible nodes into the
// range of 0 to MaxScore.
type Normalizer interface {
	// Normalize changes the scores in place.
	Normalize(pod *corev1.Pod, scores []int64)
}

// Weighted is a priority and how much it counts.
type Weighted struct {
	Priority Priority
	// Weight multiplies the normalised score; it is at least 1.
	Weight int64
}

// Scale brings scores that are not negative into the range of 0 to MaxScore by their maximum,
// rounding down; reversed, the lowest score becomes the best one. It is what most normalizers
// of upstream do.
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

// PriorityFunc is a Priority made of a function whose scores are 0 to MaxScore.
func PriorityFunc(name string, score func(pod *corev1.Pod, node *NodeInfo) int64) Priority {
	return priorityFunc{name, score}
}

type priorityFunc struct {
	name  string
	score func(*corev1.Pod, *NodeInfo) int64
}

func (f priorityFunc) Name() string                                { return f.name }
func (f priorityFunc) Score(pod *corev1.Pod, node *NodeInfo) int64 { return f.score(pod, node) }
