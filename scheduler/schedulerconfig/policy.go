package schedulerconfig

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/configfile"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// policy is a Policy.
type policy struct {
	metav1.TypeMeta

	Predicates                     []predicatePolicy `json:"predicates"`
	Priorities                     []priorityPolicy  `json:"priorities"`
	Extenders                      []legacyExtender  `json:"extenders"`
	HardPodAffinitySymmetricWeight *int32            `json:"hardPodAffinitySymmetricWeight"`
	AlwaysCheckAllPredicates       bool              `json:"alwaysCheckAllPredicates"`
}

type predicatePolicy struct {
	Name     string `json:"name"`
	Argument *struct {
		ServiceAffinity *struct {
			Labels []string `json:"labels"`
		} `json:"serviceAffinity"`
		LabelsPresence *struct {
			Labels   []string `json:"labels"`
			Presence bool     `json:"presence"`
		} `json:"labelsPresence"`
	} `json:"argument"`
}

type priorityPolicy struct {
	Name     string            `json:"name"`
	Weight   int64             `json:"weight"`
	Argument *priorityArgument `json:"argument"`
}

type priorityArgument struct {
	ServiceAntiAffinity *struct {
		Label string `json:"label"`
	} `json:"serviceAntiAffinity"`
	LabelPreference *struct {
		Label    string `json:"label"`
		Presence bool   `json:"presence"`
	} `json:"labelPreference"`
	RequestedToCapacityRatio *struct {
		Shape     []shapePoint   `json:"shape"`
		Resources []resourceSpec `json:"resources"`
	} `json:"requestedToCapacityRatioArguments"`
}

// legacyExtender is an extender as a Policy has it.
type legacyExtender struct {
	URLPrefix        string        `json:"urlPrefix"`
	FilterVerb       string        `json:"filterVerb"`
	PreemptVerb      string        `json:"preemptVerb"`
	PrioritizeVerb   string        `json:"prioritizeVerb"`
	Weight           int64         `json:"weight"`
	BindVerb         string        `json:"bindVerb"`
	EnableHTTPS      bool          `json:"enableHttps"`
	TLSConfig        *tlsFiles     `json:"tlsConfig"`
	HTTPTimeout      time.Duration `json:"httpTimeout"`
	NodeCacheCapable bool          `json:"nodeCacheCapable"`
	ManagedResources []managed     `json:"managedResources"`
	Ignorable        bool          `json:"ignorable"`
}

// OpenPolicy reads the Policy at path: one profile of the default scheduler, by upstream's mapping of predicates and priorities
// to plugins (until v1.22). Predicates or priorities that the file leaves out are upstream's default then.
//
// Pods with scheduling gates, or that need dynamic resources or features of nodes, are not left to chance: the plugins about
// these are always part of the profile, as are the queue's order, preemption and the binder.
func OpenPolicy(path string, o Options) (*Config, error) {
	d, err := configfile.Open(path)
	if err != nil {
		return nil, err
	}
	var f policy
	if err := d.As(configfile.Kinds{Kind: "Policy", Versions: []string{"v1"}}, &f); err != nil {
		return nil, err
	}
	r := newReader(d, o)
	r.client(&connection{})
	r.election(&election{})
	extenders := make([]extended, len(f.Extenders))
	for i, e := range f.Extenders {
		extenders[i] = extended{
			e.URLPrefix, e.FilterVerb, e.PreemptVerb, e.PrioritizeVerb, e.Weight, e.BindVerb, e.EnableHTTPS, e.TLSConfig,
			metav1.Duration{Duration: e.HTTPTimeout}, e.NodeCacheCapable, e.ManagedResources, e.Ignorable,
		}
	}
	r.extend(extenders, field.NewPath("extenders"))
	r.policy(&f)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.c, nil
}

// legacy gathers the profile of a Policy.
type legacy struct {
	*reader
	sets   pluginSets
	own    map[string]scheduler.Plugin // plugins that only a Policy has
	labels nodeLabels
	spread bool // constraints by default
}

func (r *reader) policy(f *policy) {
	if f.AlwaysCheckAllPredicates {
		r.refuse(field.NewPath("alwaysCheckAllPredicates"), "true is not supported: the first predicate that refuses a node is reported")
	}
	l := &legacy{reader: r, own: map[string]scheduler.Plugin{}}
	l.sets.MultiPoint = pluginSet{
		Enabled:  []plugin{{Name: "SchedulingGates"}, {Name: "PrioritySort"}},
		Disabled: []plugin{{Name: "*"}},
	}
	l.predicates(f.Predicates)
	l.priorities(f.Priorities)
	l.sets.MultiPoint.Enabled = append(l.sets.MultiPoint.Enabled, plugin{Name: "DynamicResources"}, plugin{Name: "DefaultPreemption"},
		plugin{Name: "NodeDeclaredFeatures"}, plugin{Name: defaultBinder})
	l.sets.Score.Disabled = []plugin{{Name: "DynamicResources"}}

	var configs []pluginConfig
	if weight := f.HardPodAffinitySymmetricWeight; weight != nil {
		if *weight < 0 || *weight > 100 {
			r.wrong(field.Invalid(field.NewPath("hardPodAffinitySymmetricWeight"), *weight, "not in valid range [0-100]"))
		}
		configs = append(configs, pluginConfig{Name: "InterPodAffinity", Args: fmt.Appendf(nil, `{"hardPodAffinityWeight":%d}`, *weight)})
	}
	if !l.spread {
		configs = append(configs, pluginConfig{Name: "PodTopologySpread", Args: []byte(`{"defaultingType":"List"}`)})
	}
	if len(r.errs) > 0 {
		return
	}
	l.own[nodeLabelName] = l.labels
	for _, p := range l.own {
		r.o.Plugins = append(slices.Clip(r.o.Plugins), p)
	}
	r.profile(&profile{Plugins: l.sets, PluginConfig: configs}, scheduler.DefaultSchedulerName, nil)
}

// predicateOrder is the order in which predicates are called, with the plugins behind them.
func predicateOrder() []struct{ name, plugins string } {
	return []struct{ name, plugins string }{
		{"CheckNodeUnschedulable", "NodeUnschedulable"}, {"GeneralPredicates", ""}, {"HostName", "NodeName"},
		{"PodFitsHostPorts", "NodePorts"}, {"MatchNodeSelector", "NodeAffinity"}, {"PodFitsResources", "NodeResourcesFit"},
		{"NoDiskConflict", "VolumeRestrictions"}, {"PodToleratesNodeTaints", "TaintToleration"},
		{"CheckNodeLabelPresence", nodeLabelName}, {"MaxEBSVolumeCount", "NodeVolumeLimits"},
		{"MaxGCEPDVolumeCount", "NodeVolumeLimits"}, {"MaxCSIVolumeCountPred", "NodeVolumeLimits"},
		{"MaxAzureDiskVolumeCount", "NodeVolumeLimits"}, {"MaxCinderVolumeCount", "NodeVolumeLimits"},
		{"CheckVolumeBinding", "VolumeBinding"}, {"NoVolumeZoneConflict", "VolumeZone"}, {"EvenPodsSpread", "PodTopologySpread"},
		{"MatchInterPodAffinity", "InterPodAffinity"},
	}
}

// predicates enables the plugins of predicates.
func (l *legacy) predicates(all []predicatePolicy) {
	// Two are there whatever the file says.
	named := map[string]bool{"CheckNodeUnschedulable": true, "PodToleratesNodeTaints": true}
	if all == nil {
		for _, name := range []string{
			"NoVolumeZoneConflict", "MaxCSIVolumeCountPred", "MatchInterPodAffinity", "NoDiskConflict", "GeneralPredicates",
			"CheckVolumeBinding", "EvenPodsSpread",
		} {
			named[name] = true
		}
	}
	for i := range all {
		if name := l.predicate(&all[i], field.NewPath("predicates").Index(i)); name != "" {
			named[name] = true
		}
	}
	for _, p := range predicateOrder() {
		switch {
		case !named[p.name]:
		case p.name == "GeneralPredicates":
			for _, name := range []string{"NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"} {
				l.enable(name, preFilter, filter)
			}
		case p.plugins == "VolumeBinding":
			l.enable(p.plugins, preFilter, filter, reserve, preBind)
		default:
			l.enable(p.plugins, preFilter, filter)
		}
	}
}

// enable enables a plugin at some of its points, once.
func (l *legacy) enable(name string, at ...point) {
	for _, p := range at {
		k, ok := l.known()[name]
		if name == nodeLabelName {
			k, ok = kind{points: pointsOf(l.labels)}, true
		}
		set := l.sets.at(p)
		if (!ok || k.extends(p)) && !slices.ContainsFunc(set.Enabled, func(q plugin) bool { return q.Name == name }) {
			set.Enabled = append(set.Enabled, plugin{Name: name})
		}
	}
}

// predicate returns the name of the built-in predicate that a predicate is, after noting its arguments; "" if it is refused.
func (l *legacy) predicate(p *predicatePolicy, at *field.Path) string {
	name := p.Name
	if name == "PodFitsPorts" {
		name = "PodFitsHostPorts"
	}
	if arg := p.Argument; arg != nil {
		if (arg.ServiceAffinity == nil) == (arg.LabelsPresence == nil) {
			n := 0
			if arg.ServiceAffinity != nil {
				n = 2
			}
			l.refuse(at.Child("argument"), "exactly 1 predicate argument is required, numArgs: %v, predicate %v", n, p.Name)
			return ""
		}
	}
	for _, known := range predicateOrder() {
		if known.name == name && name != "CheckNodeLabelPresence" {
			return name // upstream uses no arguments of these
		}
	}
	switch {
	case p.Argument != nil && p.Argument.LabelsPresence != nil:
		if labels := p.Argument.LabelsPresence; labels.Presence {
			l.labels.present = append(l.labels.present, labels.Labels...)
		} else {
			l.labels.absent = append(l.labels.absent, labels.Labels...)
		}
		return "CheckNodeLabelPresence"
	case p.Argument != nil || name == "CheckServiceAffinity":
		l.refuse(at, "ServiceAffinity is not supported: spec.affinity.podAffinity places pods together")
	default:
		l.wrong(field.Invalid(at.Child("name"), p.Name, fmt.Sprintf("predicate type not found for %q", name)))
	}
	return ""
}

// priorities enables the plugins of priorities.
func (l *legacy) priorities(all []priorityPolicy) {
	if all == nil {
		all = []priorityPolicy{
			{Name: "BalancedResourceAllocation", Weight: 1}, {Name: "EvenPodsSpreadPriority", Weight: 2},
			{Name: "ImageLocalityPriority", Weight: 1}, {Name: "InterPodAffinityPriority", Weight: 1},
			{Name: "LeastRequestedPriority", Weight: 1}, {Name: "NodeAffinityPriority", Weight: 1},
			{Name: "NodePreferAvoidPodsPriority", Weight: 10000}, {Name: "SelectorSpreadPriority", Weight: 1},
			{Name: "TaintTolerationPriority", Weight: 1},
		}
	}
	var preferences *priorityPolicy
	for i := range all {
		p, at := &all[i], field.NewPath("priorities").Index(i)
		if p.Name == "EqualPriority" {
			continue // it changes nothing
		}
		if p.Weight <= 0 || p.Weight >= math.MaxInt32 {
			l.wrong(field.Invalid(at.Child("weight"), p.Weight, fmt.Sprintf("priority %s should have a positive weight applied to it or it has overflown", p.Name)))
			continue
		}
		if arg := p.Argument; arg != nil && arg.LabelPreference != nil {
			if preferences != nil && preferences.Weight != p.Weight {
				l.wrong(field.Invalid(at.Child("weight"), p.Weight, fmt.Sprintf("LabelPreference  priority %q has a different weight with %q", p.Name, preferences.Name)))
			}
			preferences = p
			l.labels.preferred = append(l.labels.preferred, labelPreference{arg.LabelPreference.Label, arg.LabelPreference.Presence})
			continue
		}
		l.priority(p, at)
	}
	if preferences != nil {
		l.score(nodeLabelName, preferences.Weight*int64(len(l.labels.preferred)))
	}
}

// score enables a plugin that scores nodes; of several weights the greatest counts.
func (l *legacy) score(name string, weight int64) {
	l.enable(name, preScore, score)
	for i := range l.sets.Score.Enabled {
		p := &l.sets.Score.Enabled[i]
		if p.Name == name && (p.Weight == nil || int64(*p.Weight) < weight) {
			w := int32(min(weight, math.MaxInt32))
			p.Weight = &w
		}
	}
}

// priority enables the plugin of one priority.
func (l *legacy) priority(p *priorityPolicy, at *field.Path) {
	// addition is a plugin beside the one of that name upstream, so that each has its own weight.
	addition := func(added scheduler.Plugin) {
		name, w := added.Name(), int32(p.Weight)
		l.own[name] = added
		l.sets.Score.Enabled = slices.DeleteFunc(l.sets.Score.Enabled, func(q plugin) bool { return q.Name == name })
		l.sets.Score.Enabled = append(l.sets.Score.Enabled, plugin{Name: name, Weight: &w})
		if slices.Contains(pointsOf(added), preScore) {
			l.enable(name, preScore)
		}
	}
	switch p.Name {
	case "SelectorSpreadPriority", "ServiceSpreadingPriority":
		l.spread = true
		l.score("PodTopologySpread", p.Weight)
	case "EvenPodsSpreadPriority":
		l.score("PodTopologySpread", p.Weight)
	case "TaintTolerationPriority":
		l.score("TaintToleration", p.Weight)
	case "NodeAffinityPriority":
		l.score("NodeAffinity", p.Weight)
	case "ImageLocalityPriority":
		l.score("ImageLocality", p.Weight)
	case "InterPodAffinityPriority":
		l.score("InterPodAffinity", p.Weight)
	case "BalancedResourceAllocation":
		l.score("NodeResourcesBalancedAllocation", p.Weight)
	case "LeastRequestedPriority":
		addition(resourceScore{name: "NodeResourcesLeastAllocated"})
	case "MostRequestedPriority":
		addition(resourceScore{"NodeResourcesMostAllocated", plugins.NodeResourcesFit{Scoring: plugins.Scoring{Strategy: plugins.MostAllocated}}})
	case "NodePreferAvoidPodsPriority":
		addition(avoidPods{})
	default:
		switch {
		case p.Argument == nil:
			l.wrong(field.Invalid(at.Child("name"), p.Name, fmt.Sprintf("priority type not found for %q", p.Name)))
		case p.Argument.RequestedToCapacityRatio != nil && p.Argument.ServiceAntiAffinity == nil:
			args := p.Argument.RequestedToCapacityRatio
			scoring := l.scoring(&scoringStrategy{
				Type: string(plugins.RequestedToCapacityRatio), Resources: args.Resources, RequestedToCapacityRatio: &ratio{args.Shape},
			}, at.Child("argument", "requestedToCapacityRatioArguments"))
			addition(resourceScore{"RequestedToCapacityRatio", plugins.NodeResourcesFit{Scoring: scoring}})
		case p.Argument.ServiceAntiAffinity != nil:
			l.refuse(at, "ServiceAntiAffinity is not supported: SelectorSpreadPriority and spec.topologySpreadConstraints spread pods")
		default:
			l.refuse(at.Child("argument"), "exactly 1 priority argument is required, numArgs: 0, priority %v", p.Name)
		}
	}
}
