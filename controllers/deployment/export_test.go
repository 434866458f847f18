package deployment

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// The pure parts, for tables.
var (
	TemplateHash  = pods.TemplateHash
	MakeSet       = makeSet
	SetName       = setName
	Fenceposts    = surgeAndUnavailable
	Annotate      = annotate
	LastRevision  = lastRevision
	Superfluous   = superfluous
	RolloutStatus = func(d *appsv1.Deployment, current *appsv1.ReplicaSet, old ...*appsv1.ReplicaSet) func() appsv1.DeploymentStatus {
		return func() appsv1.DeploymentStatus {
			return rolloutStatus(d, sets{current, old}, d.CreationTimestamp.Time)
		}
	}
	ProgressCheck   = progressCheck
	SetCondition    = setCondition
	Complete        = complete
	Progressed      = progressed
	TimedOut        = timedOut
	PauseCondition  = pauseCondition
	CountAnnotation = countAnnotation
	TakeTemplate    = takeTemplate
	MaxUnavailable  = maxUnavailable
	NextRevision    = nextRevision
)

// Step is a size a plan gives to a set.
type Step struct {
	Set string
	To  int32
}

func steps(plan []scaling) []Step {
	var out []Step
	for _, s := range plan {
		out = append(out, Step{s.set.Name, s.to})
	}
	return out
}

// PlanRolling is the next step of a rolling update.
func PlanRolling(d *appsv1.Deployment, current *appsv1.ReplicaSet, old ...*appsv1.ReplicaSet) []Step {
	return steps(planRolling(d, sets{current, old}))
}

// PlanScale brings the sets to the size of the Deployment.
func PlanScale(d *appsv1.Deployment, current *appsv1.ReplicaSet, old ...*appsv1.ReplicaSet) []Step {
	return steps(planScale(d, sets{current, old}))
}
