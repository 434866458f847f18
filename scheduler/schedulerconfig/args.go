package schedulerconfig

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// within refuses numbers that are not from 0 to most.
func (r *reader) within(at *field.Path, n, most int32) {
	if n < 0 || n > most {
		r.wrong(field.Invalid(at, n, fmt.Sprintf("not in valid range [0, %d]", most)))
	}
}

func (r *reader) candidates(args *preemptionArgs, at *field.Path) plugins.Candidates {
	percentage, absolute := ptr.Deref(args.MinCandidateNodesPercentage, 10), ptr.Deref(args.MinCandidateNodesAbsolute, 100)
	percentagePath, absolutePath := at.Child("minCandidateNodesPercentage"), at.Child("minCandidateNodesAbsolute")
	r.within(percentagePath, percentage, 100)
	if absolute < 0 {
		r.wrong(field.Invalid(absolutePath, absolute, "not in valid range [0, inf)"))
	}
	if percentage == 0 && absolute == 0 {
		r.wrong(
			field.Invalid(percentagePath, percentage, "cannot be zero at the same time as minCandidateNodesAbsolute"),
			field.Invalid(absolutePath, absolute, "cannot be zero at the same time as minCandidateNodesPercentage"),
		)
	}
	return plugins.Candidates{Percentage: int(percentage), Absolute: int(absolute)}
}

func (r *reader) fit(args *fitArgs, at *field.Path) plugins.NodeResourcesFit {
	for i, name := range args.IgnoredResources {
		r.wrong(metav1validation.ValidateLabelName(name, at.Child("ignoredResources").Index(i))...)
	}
	for i, group := range args.IgnoredResourceGroups {
		path := at.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			r.wrong(field.Invalid(path, group, "resource group name can't contain '/'"))
		}
		r.wrong(metav1validation.ValidateLabelName(group, path)...)
	}
	fit := plugins.NodeResourcesFit{Ignored: args.IgnoredResources, IgnoredGroups: args.IgnoredResourceGroups}
	if args.ScoringStrategy != nil {
		fit.Scoring = r.scoring(args.ScoringStrategy, at.Child("scoringStrategy"))
	}
	return fit
}

func (r *reader) scoring(s *scoringStrategy, at *field.Path) plugins.Scoring {
	scoring := plugins.Scoring{Strategy: plugins.Strategy(s.Type)}
	known := []string{string(plugins.LeastAllocated), string(plugins.MostAllocated), string(plugins.RequestedToCapacityRatio)}
	shapePath := at.Child("requestedToCapacityRatio")
	switch scoring.Strategy {
	case plugins.RequestedToCapacityRatio:
		if s.RequestedToCapacityRatio == nil {
			r.wrong(field.Required(shapePath, "must be specified when type is RequestedToCapacityRatio"))
		} else {
			scoring.Shape = r.shape(s.RequestedToCapacityRatio.Shape, shapePath.Child("shape"))
		}
	case plugins.LeastAllocated, plugins.MostAllocated:
		if s.RequestedToCapacityRatio != nil {
			r.wrong(field.Forbidden(shapePath, "must be nil when type is not RequestedToCapacityRatio"))
		}
	default:
		r.wrong(field.NotSupported(at.Child("type"), s.Type, known))
	}
	for i, resource := range s.Resources {
		weight := resource.Weight
		if weight == 0 {
			weight = 1
		}
		if weight < 0 || weight > 100 {
			r.wrong(field.Invalid(at.Child("resources").Index(i).Child("weight"), weight,
				fmt.Sprintf("resource weight of %v not in valid range (0, 100]", resource.Name)))
		}
		scoring.Resources = append(scoring.Resources, plugins.WeightedResource{Name: corev1.ResourceName(resource.Name), Weight: weight})
	}
	return scoring
}

// shape reads scores from 0 to 10 by utilization.
func (r *reader) shape(points []shapePoint, at *field.Path) plugins.Shape {
	if len(points) == 0 {
		r.wrong(field.Required(at, "at least one point must be specified"))
	}
	var shape plugins.Shape
	sorted := true
	for i, p := range points {
		if i > 0 && sorted && points[i-1].Utilization >= p.Utilization {
			sorted = false
			r.wrong(field.Invalid(at.Index(i).Child("utilization"), p.Utilization, "values must be sorted in increasing order"))
		}
		r.within(at.Index(i).Child("utilization"), p.Utilization, 100)
		r.within(at.Index(i).Child("score"), p.Score, 10)
		shape = append(shape, plugins.Point{Utilization: int64(p.Utilization), Score: int64(p.Score) * 10})
	}
	return shape
}

func (r *reader) balanced(args *balancedArgs, at *field.Path) []corev1.ResourceName {
	seen := map[string]bool{}
	var names []corev1.ResourceName
	for i, resource := range args.Resources {
		path := at.Child("resources").Index(i)
		if seen[resource.Name] {
			r.wrong(field.Duplicate(path.Child("name"), resource.Name))
		}
		if resource.Weight != 0 && resource.Weight != 1 {
			r.wrong(field.Invalid(path.Child("weight"), resource.Weight, "must be 1"))
		}
		seen[resource.Name] = true
		names = append(names, corev1.ResourceName(resource.Name))
	}
	return names
}

func (r *reader) constraints(args *spreadArgs, at *field.Path) []corev1.TopologySpreadConstraint {
	const system, list = "System", "List"
	switch {
	case args.DefaultingType != "" && args.DefaultingType != system && args.DefaultingType != list:
		r.wrong(field.NotSupported(at.Child("defaultingType"), args.DefaultingType, []string{system, list}))
	case args.DefaultingType != list && len(args.DefaultConstraints) > 0:
		r.wrong(field.Invalid(at.Child("defaultingType"), system, "when .defaultConstraints are not empty"))
	}
	for i := range args.DefaultConstraints {
		r.constraint(args.DefaultConstraints[:i], &args.DefaultConstraints[i], at.Child("defaultConstraints").Index(i))
	}
	if args.DefaultingType != list {
		return nil
	}
	return append([]corev1.TopologySpreadConstraint{}, args.DefaultConstraints...) // empty, not nil: none
}

func (r *reader) constraint(before []corev1.TopologySpreadConstraint, c *corev1.TopologySpreadConstraint, at *field.Path) {
	if c.MaxSkew <= 0 {
		r.wrong(field.Invalid(at.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if c.TopologyKey == "" {
		r.wrong(field.Required(at.Child("topologyKey"), "can not be empty"))
	} else {
		r.wrong(metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
	}
	switch c.WhenUnsatisfiable {
	case "":
		r.wrong(field.Required(at.Child("whenUnsatisfiable"), "can not be empty"))
	case corev1.DoNotSchedule, corev1.ScheduleAnyway:
	default:
		r.wrong(field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, []string{string(corev1.DoNotSchedule), string(corev1.ScheduleAnyway)}))
	}
	if c.LabelSelector != nil {
		r.wrong(field.Forbidden(at.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
	}
	for _, other := range before {
		if other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable {
			r.wrong(field.Duplicate(at, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
			break
		}
	}
}

func (r *reader) volumeBinding(args *volumeBindingArgs, at *field.Path) plugins.Shape {
	path := at.Child("bindTimeoutSeconds")
	if seconds := args.BindTimeoutSeconds; seconds != nil {
		timeout := time.Duration(*seconds) * time.Second
		switch {
		case *seconds < 0:
			r.wrong(field.Invalid(path, *seconds, "invalid BindTimeoutSeconds, should not be a negative value"))
		case *seconds == 0 || *seconds > 24*60*60:
			r.refuse(path, "%d is not supported: volumes are bound within a second to a day", *seconds)
		default:
			r.once(path, &r.c.BindTimeout, timeout)
		}
	}
	if len(args.Shape) == 0 {
		return nil
	}
	return r.shape(args.Shape, at.Child("shape"))
}

// once sets a time that all profiles share.
func (r *reader) once(at *field.Path, to *time.Duration, d time.Duration) {
	if *to != 0 && *to != d {
		r.refuse(at, "%v is not supported: it must be the same in all profiles that give it", max(d, 0))
	}
	*to = d
}

func (r *reader) dynamicResources(args *dynamicResourcesArgs, at *field.Path) {
	if limit := args.FilterTimeout; limit != nil {
		path := at.Child("filterTimeout")
		switch {
		case limit.Duration < 0:
			r.wrong(field.Invalid(path, *limit, "must be zero or positive"))
		case limit.Duration == 0:
			r.once(path, &r.c.DeviceFindTimeout, devices.Unlimited)
		default:
			r.once(path, &r.c.DeviceFindTimeout, limit.Duration)
		}
	}
	if limit := args.BindingTimeout; limit != nil {
		path := at.Child("bindingTimeout")
		if limit.Duration < time.Second {
			r.wrong(field.Invalid(path, *limit, "must be at least 1 second"))
			return
		}
		r.once(path, &r.c.DeviceBindTimeout, limit.Duration)
	}
}

func (r *reader) affinity(args *nodeAffinityArgs, at *field.Path) *corev1.NodeAffinity {
	if args.AddedAffinity == nil {
		return nil
	}
	at = at.Child("addedAffinity")
	if required := args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(at.Child("requiredDuringSchedulingIgnoredDuringExecution")))
		r.aggregate(err)
	}
	_, err := nodeaffinity.NewPreferredSchedulingTerms(args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		field.WithPath(at.Child("preferredDuringSchedulingIgnoredDuringExecution")))
	r.aggregate(err)
	return args.AddedAffinity
}

// aggregate takes the field errors that an aggregate has.
func (r *reader) aggregate(err error) {
	if err == nil {
		return
	}
	all := []error{err}
	if some, ok := err.(utilerrors.Aggregate); ok { //nolint:errorlint // it is not wrapped
		all = utilerrors.Flatten(some).Errors()
	}
	for _, err := range all {
		if one, ok := err.(*field.Error); ok { //nolint:errorlint // nor are these
			r.wrong(one)
		} else {
			r.errs = append(r.errs, r.d.Wrong("", err))
		}
	}
}
