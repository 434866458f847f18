package schedulerconfig

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/internal/configfile"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// defaultBinder is the plugin that needs a client.
const defaultBinder = "DefaultBinder"

// kind is what a plugin is.
type kind struct {
	points []point
	// plugin is the plugin with default arguments; nil for those that a Profile does without.
	plugin scheduler.Plugin
}

func (k kind) extends(p point) bool { return slices.Contains(k.points, p) }

// prepares reports whether what the plugin does at a point depends on what it does at the one before.
func (k kind) prepares(p, before point) bool {
	switch k.plugin.(type) {
	case plugins.NodeName, plugins.NodeUnschedulable, plugins.TaintToleration:
		if p == filter {
			return false
		}
	}
	return k.extends(before)
}

// known returns all plugins that a file may name.
func (r *reader) known() map[string]kind {
	known := map[string]kind{
		"PrioritySort":                    {points: []point{queueSort}},
		defaultBinder:                     {points: []point{bind}},
		"SchedulingGates":                 {[]point{preEnqueue}, plugins.SchedulingGates{}},
		"NodeName":                        {[]point{preFilter, filter}, plugins.NodeName{}},
		"NodeUnschedulable":               {[]point{preFilter, filter}, plugins.NodeUnschedulable{}},
		"TaintToleration":                 {[]point{preFilter, filter, preScore, score}, plugins.TaintToleration{}},
		"NodeAffinity":                    {[]point{preFilter, filter, preScore, score}, plugins.NodeAffinity{}},
		"NodePorts":                       {[]point{preFilter, filter}, plugins.NodePorts{}},
		"NodeResourcesFit":                {[]point{preFilter, filter, preScore, score}, plugins.NodeResourcesFit{}},
		"VolumeRestrictions":              {[]point{preFilter, filter}, plugins.VolumeRestrictions{}},
		"NodeVolumeLimits":                {[]point{preFilter, filter}, plugins.NodeVolumeLimits{}},
		"VolumeBinding":                   {[]point{preFilter, filter, preScore, score, reserve, preBind}, plugins.VolumeBinding{}},
		"VolumeZone":                      {[]point{preFilter, filter}, plugins.VolumeZone{}},
		"PodTopologySpread":               {[]point{preFilter, filter, preScore, score}, plugins.PodTopologySpread{}},
		"InterPodAffinity":                {[]point{preFilter, filter, preScore, score}, plugins.InterPodAffinity{}},
		"DynamicResources":                {[]point{preEnqueue, preFilter, filter, postFilter, score, reserve, preBind}, plugins.DynamicResources{}},
		"DefaultPreemption":               {[]point{preEnqueue, postFilter}, plugins.DefaultPreemption{}},
		"NodeResourcesBalancedAllocation": {[]point{preScore, score}, plugins.NodeResourcesBalancedAllocation{}},
		"ImageLocality":                   {[]point{score}, plugins.ImageLocality{}},
		"NodeDeclaredFeatures":            {[]point{preFilter, filter}, plugins.NodeDeclaredFeatures{}},
	}
	for _, p := range r.o.Plugins {
		known[p.Name()] = kind{pointsOf(p), p}
	}
	return known
}

// pointsOf returns the points of a plugin by what it implements.
func pointsOf(p scheduler.Plugin) []point {
	var all []point
	add := func(is bool, points ...point) {
		if is {
			all = append(all, points...)
		}
	}
	_, gate := p.(scheduler.Gate)
	_, preparer := p.(scheduler.Preparer)
	_, predicate := p.(scheduler.Predicate)
	_, winnower := p.(scheduler.Winnower)
	_, preemptor := p.(scheduler.Preemptor)
	_, scorePreparer := p.(scheduler.ScorePreparer)
	_, priority := p.(scheduler.Priority)
	_, reserver := p.(scheduler.Reserver)
	_, permitter := p.(scheduler.Permitter)
	_, preBinder := p.(scheduler.PreBinder)
	_, binder := p.(scheduler.Binder)
	_, postBinder := p.(scheduler.PostBinder)
	add(gate, preEnqueue)
	add(preparer, preFilter)
	add(predicate || winnower, filter)
	add(preemptor, postFilter)
	add(scorePreparer, preScore)
	add(priority, score)
	add(reserver, reserve)
	add(permitter, permit)
	add(preBinder, preBind)
	add(binder, bind)
	add(postBinder, postBind)
	return all
}

// defaults are upstream's default plugins, enabled at all their points.
func defaults() []plugin {
	weight := ptr.To[int32]
	return []plugin{
		{Name: "SchedulingGates"}, {Name: "PrioritySort"}, {Name: "NodeName"}, {Name: "NodeUnschedulable"},
		{"TaintToleration", weight(3)}, {"NodeAffinity", weight(2)}, {Name: "NodePorts"}, {"NodeResourcesFit", weight(1)},
		{Name: "VolumeRestrictions"}, {Name: "NodeVolumeLimits"}, {Name: "VolumeBinding"}, {Name: "VolumeZone"},
		{"PodTopologySpread", weight(2)}, {"InterPodAffinity", weight(2)}, {"DynamicResources", weight(2)}, {Name: "DefaultPreemption"},
		{"NodeResourcesBalancedAllocation", weight(1)}, {"ImageLocality", weight(1)}, {Name: defaultBinder}, {Name: "NodeDeclaredFeatures"},
	}
}

// plugins returns the plugins of a profile by name, with their arguments.
func (r *reader) plugins(configs []pluginConfig, at *field.Path) map[string]scheduler.Plugin {
	all := map[string]scheduler.Plugin{}
	known := r.known()
	for name, k := range known {
		if k.plugin != nil {
			all[name] = k.plugin
		}
	}
	seen := map[string]bool{}
	for i, c := range configs {
		path := at.Index(i)
		switch {
		case seen[c.Name]:
			r.wrong(field.Duplicate(path, c.Name))
		case r.unknown(c.Name, known, path.Child("name")):
		default:
			all[c.Name] = r.configured(all[c.Name], c, path.Child("args"))
		}
		seen[c.Name] = true
	}
	if fit, ok := all["NodeResourcesFit"].(plugins.NodeResourcesFit); ok && len(r.ignored) > 0 {
		fit.Ignored = r.ignored // instead of the file's, as upstream
		all["NodeResourcesFit"] = fit
	}
	if preemption, ok := all["DefaultPreemption"].(plugins.DefaultPreemption); ok {
		for _, e := range r.extenders {
			if e.Preempts() {
				preemption.Reviewers = append(preemption.Reviewers, e)
			}
		}
		all["DefaultPreemption"] = preemption
	}
	return all
}

// configured returns a plugin with arguments.
func (r *reader) configured(p scheduler.Plugin, c pluginConfig, at *field.Path) scheduler.Plugin {
	read := func(into any) bool { return r.arguments(c, into, at) }
	switch p := p.(type) {
	case plugins.DefaultPreemption:
		var args preemptionArgs
		if read(&args) {
			p.Candidates = r.candidates(&args, at)
		}
		return p
	case plugins.InterPodAffinity:
		var args interPodAffinityArgs
		if read(&args) {
			r.within(at.Child("hardPodAffinityWeight"), ptr.Deref(args.HardPodAffinityWeight, 1), 100)
			p.HardPodAffinityWeight, p.IgnorePreferredTermsOfExistingPods = args.HardPodAffinityWeight, args.IgnorePreferredTermsOfExistingPods
		}
		return p
	case plugins.NodeResourcesFit:
		var args fitArgs
		if read(&args) {
			p = r.fit(&args, at)
		}
		return p
	case plugins.PodTopologySpread:
		var args spreadArgs
		if read(&args) {
			p.Defaults = r.constraints(&args, at)
		}
		return p
	case plugins.NodeResourcesBalancedAllocation:
		var args balancedArgs
		if read(&args) {
			p.Resources = r.balanced(&args, at)
		}
		return p
	case plugins.VolumeBinding:
		var args volumeBindingArgs
		if read(&args) {
			p.Shape = r.volumeBinding(&args, at)
		}
		return p
	case plugins.DynamicResources:
		var args dynamicResourcesArgs
		if read(&args) {
			r.dynamicResources(&args, at)
		}
		return p
	case plugins.NodeAffinity:
		var args nodeAffinityArgs
		if read(&args) {
			p.Added = r.affinity(&args, at)
		}
		return p
	}
	if text := string(c.Args); text != "" && text != "null" && text != "{}" {
		r.refuse(at, "plugin %q takes no arguments here", c.Name)
	}
	return p
}

// arguments decodes the arguments of a plugin, and reports whether that worked.
func (r *reader) arguments(c pluginConfig, into any, at *field.Path) bool {
	if len(c.Args) == 0 || string(c.Args) == "null" {
		return true
	}
	d := r.d.Within(at.String(), c.Args)
	var is struct{ APIVersion, Kind string }
	if err := json.Unmarshal(c.Args, &is); err != nil {
		r.errs = append(r.errs, d.Wrong("", err))
		return false
	}
	group, _, _ := strings.Cut(is.APIVersion, "/")
	if want := c.Name + "Args"; is.Kind != "" && is.Kind != want || group != "" && is.APIVersion != "kubescheduler.config.k8s.io/v1" {
		r.errs = append(r.errs, d.Wrong("kind", fmt.Errorf("args for plugin %s were not of type %s.kubescheduler.config.k8s.io, got %s.%s", c.Name, want, is.Kind, group)))
		return false
	}
	if err := d.As(configfile.Kinds{}, into); err != nil {
		r.errs = append(r.errs, err)
		return false
	}
	return true
}
