// Package plugins has the plugins of upstream's default profile, with upstream's names, reasons and scores: a
// file and a type for each, which is a scheduler.Predicate, a scheduler.Priority or both.
//
// Each type's zero value is ready to use, holds no state, and may be shared by goroutines. The four about
// volumes, VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone, need a volumes.Volumes, which
// WithVolumes gives them; without it, pods with persistent volume claims are refused. InterPodAffinity and
// PodTopologySpread need a groups.Groups, which WithGroups gives them, for namespaces and default constraints.
// DynamicResources needs a devices.Devices, from WithDevices; without it, pods with resource claims are refused.
//
// Each predicate knows which events may help a pod that it refused (scheduler.Hinter). Those about volumes fail
// for objects that contradict each other, PodTopologySpread for selectors that cannot be parsed, and of the
// priorities NodeAffinity for such preferred terms; the others never fail. InterPodAffinity and PodTopologySpread are
// a scheduler.Cacher; all others but ImageLocality, DynamicResources and those about volumes are scheduler.Local; these
// skip pods without claims or volumes of their kind.
package plugins

import (
	"cmp"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// Default returns upstream's default plugins with their default weights, in upstream's order, as far as they
// exist here. The slice is the caller's: scheduler.With replaces and adds, scheduler.Without removes.
func Default() []scheduler.Enabled {
	return []scheduler.Enabled{
		{Plugin: SchedulingGates{}},
		{Plugin: NodeName{}},
		{Plugin: NodeUnschedulable{}},
		{Plugin: TaintToleration{}, Weight: 3},
		{Plugin: NodeAffinity{}, Weight: 2},
		{Plugin: NodePorts{}},
		{Plugin: NodeResourcesFit{}, Weight: 1},
		{Plugin: VolumeRestrictions{}},
		{Plugin: NodeVolumeLimits{}},
		{Plugin: VolumeBinding{}, Weight: 1},
		{Plugin: VolumeZone{}},
		{Plugin: PodTopologySpread{}, Weight: 2},
		{Plugin: InterPodAffinity{}, Weight: 2},
		{Plugin: DynamicResources{}, Weight: 2},
		{Plugin: DefaultPreemption{}},
		{Plugin: NodeResourcesBalancedAllocation{}, Weight: 1},
		{Plugin: ImageLocality{}, Weight: 1},
		{Plugin: NodeDeclaredFeatures{}},
	}
}

// WithBudgets returns a copy of plugins in which DefaultPreemption respects b, unless it uses another already. A Scheduler
// with it needs b among its Sources.Others.
func WithBudgets(plugins []scheduler.Enabled, b *budgets.Budgets) []scheduler.Enabled {
	plugins = scheduler.With(plugins)
	for i := range plugins {
		if p, ok := plugins[i].Plugin.(DefaultPreemption); ok {
			p.Budgets = cmp.Or(p.Budgets, b)
			plugins[i].Plugin = p
		}
	}
	return plugins
}

// WithVolumes returns a copy of plugins in which those about volumes use v, unless they use another already. A
// Scheduler with them needs v among its Sources.Others.
func WithVolumes(plugins []scheduler.Enabled, v *volumes.Volumes) []scheduler.Enabled {
	plugins = scheduler.With(plugins)
	for i := range plugins {
		switch p := plugins[i].Plugin.(type) {
		case VolumeRestrictions:
			plugins[i].Plugin = VolumeRestrictions{cmp.Or(p.Volumes, v)}
		case NodeVolumeLimits:
			plugins[i].Plugin = NodeVolumeLimits{cmp.Or(p.Volumes, v)}
		case VolumeBinding:
			p.Volumes = cmp.Or(p.Volumes, v)
			plugins[i].Plugin = p
		case VolumeZone:
			plugins[i].Plugin = VolumeZone{cmp.Or(p.Volumes, v)}
		}
	}
	return plugins
}

// WithGroups returns a copy of plugins in which InterPodAffinity and PodTopologySpread use g, unless they use another
// already. A Scheduler with them needs g among its Sources.Others.
func WithGroups(plugins []scheduler.Enabled, g *groups.Groups) []scheduler.Enabled {
	plugins = scheduler.With(plugins)
	for i := range plugins {
		switch p := plugins[i].Plugin.(type) {
		case InterPodAffinity:
			p.Groups = cmp.Or(p.Groups, g)
			plugins[i].Plugin = p
		case PodTopologySpread:
			p.Groups = cmp.Or(p.Groups, g)
			plugins[i].Plugin = p
		}
	}
	return plugins
}

// WithDevices returns a copy of plugins in which DynamicResources uses d, unless it uses another already. A Scheduler with
// it needs d among its Sources.Others.
func WithDevices(plugins []scheduler.Enabled, d *devices.Devices) []scheduler.Enabled {
	plugins = scheduler.With(plugins)
	for i := range plugins {
		if p, ok := plugins[i].Plugin.(DynamicResources); ok {
			p.Devices = cmp.Or(p.Devices, d)
			plugins[i].Plugin = p
		}
	}
	return plugins
}
