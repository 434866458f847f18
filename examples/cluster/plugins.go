package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/admissionconfig"
	clusterinitializers "github.com/keelson-dev/keelson/cluster/initializers"
)

// plugins says which admission plugins run, and how.
type plugins struct {
	on, off []string
	file    string
	config  *admissionconfig.Config // what the file says
}

func (p *plugins) define(f *flag.FlagSet) {
	f.StringVar(&p.file, "admission-control-config-file", "", "")
	f.Func("enable-admission-plugins", "", func(list string) error { return pick(&p.on, list) })
	f.Func("disable-admission-plugins", "", func(list string) error { return pick(&p.off, list) })
}

// usualPlugins are the names of the plugins that run unless they are left out.
func usualPlugins() []string {
	return append(cluster.StageNames(cluster.DefaultAdmission()), policy.MutatingName, webhook.MutatingName, policy.ValidatingName, webhook.ValidatingName)
}

// morePlugins are the names of those that run only if asked for.
func morePlugins() []string {
	return append(cluster.StageNames(admissionconfig.Optional()), initializers.Name)
}

// pick adds the plugins of a list.
func pick(to *[]string, list string) error {
	for _, name := range strings.Split(list, ",") {
		if known := append(usualPlugins(), morePlugins()...); !slices.Contains(known, name) {
			return fmt.Errorf("%q is not known: choose from %s, separated by commas", name, strings.Join(known, ", "))
		}
		*to = append(*to, name)
	}
	return nil
}

func (p *plugins) check() error {
	for _, name := range p.on {
		if slices.Contains(p.off, name) {
			return fmt.Errorf("--enable-admission-plugins and --disable-admission-plugins both name %s", name)
		}
	}
	if p.file == "" {
		return nil
	}
	var err error
	if p.config, err = admissionconfig.Open(p.file); err != nil {
		return fmt.Errorf("--admission-control-config-file: %w", err)
	}
	return nil
}

// apply adds the plugins that were asked for, configures them, and leaves out others.
func (p *plugins) apply(o *cluster.Options) {
	for _, stage := range admissionconfig.Optional() {
		if slices.Contains(p.on, stage.Name) {
			o.Admission = append(o.Admission, stage)
		}
	}
	if slices.Contains(p.on, initializers.Name) {
		o.Extensions = append(o.Extensions, clusterinitializers.Extension())
	}
	o.Admission = p.config.Apply(o.Admission)
	o.Disable = append(o.Disable, p.off...)
}
