package schedulerconfig

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/scheduler"
)

// point is an extension point.
type point int

const (
	preEnqueue point = iota
	queueSort
	preFilter
	filter
	postFilter
	preScore
	score
	reserve
	permit
	preBind
	bind
	postBind
	points // how many there are
)

// about returns the name of a point in files, upstream's type of its plugins, and the role of a plugin there, if it has one.
func (p point) about() (name, kind string, role scheduler.Roles) {
	all := [points]struct {
		name string
		role scheduler.Roles
	}{
		preEnqueue: {"preEnqueue", scheduler.RoleGate}, queueSort: {"queueSort", 0},
		preFilter: {"preFilter", scheduler.RolePreparer}, filter: {"filter", scheduler.RolePredicate},
		postFilter: {"postFilter", scheduler.RolePreemptor}, preScore: {"preScore", 0}, score: {"score", 0},
		reserve: {"reserve", scheduler.RoleReserver}, permit: {"permit", scheduler.RolePermitter},
		preBind: {"preBind", scheduler.RolePreBinder}, bind: {"bind", scheduler.RoleBinder}, postBind: {"postBind", scheduler.RolePostBinder},
	}
	name = all[p].name
	return name, strings.ToUpper(name[:1]) + name[1:] + "Plugin", all[p].role
}

// at returns the plugins of a point.
func (s *pluginSets) at(p point) *pluginSet {
	return [points]*pluginSet{
		preEnqueue: &s.PreEnqueue, queueSort: &s.QueueSort, preFilter: &s.PreFilter, filter: &s.Filter, postFilter: &s.PostFilter,
		preScore: &s.PreScore, score: &s.Score, reserve: &s.Reserve, permit: &s.Permit, preBind: &s.PreBind, bind: &s.Bind,
		postBind: &s.PostBind,
	}[p]
}

func (s *pluginSet) disables(name string) bool {
	return slices.ContainsFunc(s.Disabled, func(p plugin) bool { return p.Name == name || p.Name == "*" })
}

// chosen are the names of the plugins at each point, in order, and their weights.
type chosen struct {
	names   [points][]string
	weights map[string]int64
	order   []string // of the plugins that are enabled at all points that they have
}

func (c *chosen) has(p point, name string) bool { return slices.Contains(c.names[p], name) }

func (c *chosen) anywhere(name string) bool {
	return slices.ContainsFunc(c.names[:], func(names []string) bool { return slices.Contains(names, name) })
}

// points returns the plugins at each point, by upstream's rules: the defaults at all points that a plugin has, as far as the
// file does not disable or replace them.
func (r *reader) points(sets *pluginSets, at *field.Path) *chosen {
	known := r.known()
	for _, unsupported := range []struct {
		name string
		set  *pluginSet
	}{
		{"placementGenerate", &sets.PlacementGenerate}, {"placementScore", &sets.PlacementScore}, {"podGroupPostFilter", &sets.PodGroupPostFilter},
	} {
		if len(unsupported.set.Enabled) > 0 {
			r.refuse(at.Child(unsupported.name, "enabled"), "is not supported: pods are scheduled one by one")
		}
	}
	multi := r.multiPoint(&sets.MultiPoint, known, at.Child("multiPoint"))
	c := &chosen{weights: map[string]int64{}}
	for _, p := range multi {
		c.order = append(c.order, p.Name)
	}
	for p := range points {
		r.point(c, p, sets.at(p), multi, at)
	}
	r.weigh(c, sets.Score.Enabled, multi, at)
	r.check(c, known, at)
	return c
}

// multiPoint returns the plugins that are enabled at all points that they have.
func (r *reader) multiPoint(set *pluginSet, known map[string]kind, at *field.Path) []plugin {
	var all []plugin
	replaced := map[int]bool{}
	for _, p := range defaults() {
		if set.disables(p.Name) {
			continue
		}
		for i, own := range slices.Backward(set.Enabled) {
			if own.Name == p.Name {
				p, replaced[i] = own, true
				break
			}
		}
		all = append(all, p)
	}
	for i, p := range set.Enabled {
		if r.unknown(p.Name, known, at.Child("enabled").Index(i)) {
			continue
		}
		if replaced[i] {
			continue
		}
		if slices.ContainsFunc(all, func(q plugin) bool { return q.Name == p.Name }) {
			r.wrong(field.Invalid(at.Child("enabled").Index(i), p.Name, fmt.Sprintf("plugin %q already registered", p.Name)))
			continue
		}
		all = append(all, p)
	}
	return all
}

// unknown refuses a plugin that does not exist.
func (r *reader) unknown(name string, known map[string]kind, at *field.Path) bool {
	if _, ok := known[name]; ok {
		return false
	}
	switch name {
	case "AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits":
		const version = "kubescheduler.config.k8s.io/v1"
		r.wrong(field.Invalid(at, name, fmt.Sprintf("was invalid in version %q (KubeSchedulerConfiguration is version %q)", "v1", version)))
	default:
		r.wrong(field.Invalid(at, name, fmt.Sprintf("plugin %q does not exist", name)))
	}
	return true
}

// point chooses the plugins of one point.
func (r *reader) point(c *chosen, p point, set *pluginSet, multi []plugin, at *field.Path) {
	name, kind, _ := p.about()
	known := r.known()
	var own []string
	for i, e := range set.Enabled {
		path := at.Child(name, "enabled").Index(i)
		switch {
		case r.unknown(e.Name, known, path):
		case !known[e.Name].extends(p):
			r.wrong(field.Invalid(path, e.Name, fmt.Sprintf("plugin %q does not extend %s plugin", e.Name, kind)))
		case slices.Contains(own, e.Name):
			r.wrong(field.Invalid(path, e.Name, fmt.Sprintf("plugin %q already registered as %q", e.Name, kind)))
		default:
			own = append(own, e.Name)
		}
	}
	everything := slices.ContainsFunc(set.Disabled, func(p plugin) bool { return p.Name == "*" })
	var replacing, rest []string
	for _, e := range own {
		if !everything && !set.disables(e) && slices.ContainsFunc(multi, func(q plugin) bool { return q.Name == e }) {
			replacing = append(replacing, e)
		} else {
			rest = append(rest, e)
		}
	}
	c.names[p] = replacing
	for _, m := range multi {
		if known[m.Name].extends(p) && !set.disables(m.Name) && !slices.Contains(own, m.Name) {
			c.names[p] = append(c.names[p], m.Name)
		}
	}
	c.names[p] = append(c.names[p], rest...)
}

// weigh finds the weights of the plugins with scores: those of the point itself count first.
func (r *reader) weigh(c *chosen, own, multi []plugin, at *field.Path) {
	var total int64
	for _, p := range slices.Concat(own, multi) {
		if _, ok := c.weights[p.Name]; ok || !c.has(score, p.Name) {
			continue
		}
		weight := int64(1)
		if p.Weight != nil && *p.Weight != 0 {
			weight = int64(*p.Weight)
		}
		if weight < 0 {
			r.refuse(at.Child("score"), "plugin %q has weight %d, which is not supported: weights are positive", p.Name, weight)
		}
		if weight*scheduler.MaxScore > math.MaxInt64-total {
			r.refuse(at.Child("score"), "total score of Score plugins could overflow")
		}
		total += weight * scheduler.MaxScore
		c.weights[p.Name] = weight
	}
}

// check refuses what cannot work.
func (r *reader) check(c *chosen, known map[string]kind, at *field.Path) {
	if n := len(c.names[queueSort]); n != 1 {
		r.refuse(at.Child("queueSort"), "only one queue sort plugin required, but got %d", n)
	}
	if len(c.names[bind]) == 0 {
		r.refuse(at.Child("bind"), "at least one bind plugin is needed")
	}
	if !c.has(bind, defaultBinder) {
		r.refuse(at.Child("bind"), "is not supported without %s, which binds what other plugins decline", defaultBinder)
	}
	for _, pair := range [][2]point{{filter, preFilter}, {score, preScore}} {
		for _, name := range c.names[pair[0]] {
			if with, _, _ := pair[1].about(); known[name].prepares(pair[0], pair[1]) && !c.has(pair[1], name) {
				at0, _, _ := pair[0].about()
				r.refuse(at.Child(with), "plugin %q is not supported at %s without %s", name, at0, with)
			}
		}
	}
	for _, name := range []string{"VolumeBinding", "DynamicResources"} {
		if c.has(reserve, name) != c.has(preBind, name) {
			r.refuse(at.Child("reserve"), "plugin %q is not supported at one of reserve and preBind without the other", name)
		}
	}
	const preemption = "DefaultPreemption"
	if c.has(postFilter, preemption) && !c.has(preEnqueue, preemption) {
		r.refuse(at.Child("preEnqueue"), "plugin %q is not supported at postFilter without preEnqueue, where it holds pods while their victims go", preemption)
	}
}

// enabled returns the chosen plugins in their order.
func (r *reader) enabled(c *chosen, plugins map[string]scheduler.Plugin, at *field.Path) []scheduler.Enabled {
	var list []scheduler.Enabled
	known := r.known()
	for _, name := range r.ordered(c, at) {
		plugin, ok := plugins[name]
		if !ok || !c.anywhere(name) {
			continue // it sorts the queue, or binds with a client
		}
		e := scheduler.Enabled{Plugin: plugin, Without: c.without(name, known[name])}
		if _, scores := plugin.(scheduler.Priority); scores {
			e.Weight = c.weights[name]
		}
		if (&scheduler.Profile{Plugins: []scheduler.Enabled{e}}).Validate() != nil {
			continue // nothing is left that it does here
		}
		list = append(list, e)
	}
	return list
}

// without returns the roles that a plugin is not to have. One that has more roles here than upstream keeps these.
func (c *chosen) without(name string, k kind) (roles scheduler.Roles) {
	for p := range points {
		if _, _, role := p.about(); k.extends(p) && !c.has(p, name) {
			roles |= role
		}
	}
	if roles&scheduler.RolePredicate != 0 && !c.has(preFilter, name) {
		roles |= scheduler.RolePreparer
	}
	return roles
}

// ordered returns the plugins in an order that agrees with that of every point where it matters, and as far as possible with
// that of all points together.
func (r *reader) ordered(c *chosen, at *field.Path) []string {
	var rest []string
	add := func(names []string) {
		for _, name := range names {
			if !slices.Contains(rest, name) {
				rest = append(rest, name)
			}
		}
	}
	add(c.order)
	for p := range points {
		add(c.names[p])
	}
	after := func(name, other string) (point, bool) { // whether name comes after other, which is still to come
		for p := range points {
			i, j := slices.Index(c.names[p], name), slices.Index(c.names[p], other)
			if p != preFilter && p != preScore && p != score && i > j && j >= 0 {
				return p, true
			}
		}
		return 0, false
	}
	var all []string
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(name string) bool {
			return !slices.ContainsFunc(rest, func(other string) bool { _, is := after(name, other); return is })
		})
		if i < 0 {
			r.refuse(at, "plugins %q come in different orders at different points, which is not supported", rest)
			return nil
		}
		all = append(all, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return all
}
