package admissionconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/configfile"
)

// The configuration cannot be put in force.
var (
	// ErrNotConfigurable: the plugin takes no configuration.
	ErrNotConfigurable = errors.New("takes no configuration")
	// ErrTwice: two entries are about one plugin.
	ErrTwice = errors.New("is configured twice")
)

// Error says what is wrong with a file: its Path, Line and Err.
type Error = configfile.Error

// Config is what a file says. A nil *Config says nothing.
type Config struct {
	stages []cluster.AdmissionStage // of the configured plugins
}

// Open reads the file at path, and those that it names.
func Open(path string) (*Config, error) {
	d, err := configfile.Open(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Plugins    []struct {
			Name          string                `json:"name"`
			Path          string                `json:"path"`
			Configuration *runtime.RawExtension `json:"configuration"`
		} `json:"plugins"`
	}
	if err := d.As(configfile.Kinds{Group: "apiserver.config.k8s.io", Kind: "AdmissionConfiguration", Versions: []string{"v1", "v1alpha1"}}, &file); err != nil {
		return nil, err
	}
	c := &Config{}
	for i, p := range file.Plugins {
		at := field.NewPath("plugins").Index(i)
		configure, ok := configurable()[p.Name]
		switch {
		case !ok:
			return nil, d.Wrong(at.Child("name").String(), fmt.Errorf("%s: %q %w: choose from %s", at.Child("name"), p.Name, ErrNotConfigurable, strings.Join(Names(), ", ")))
		case slices.ContainsFunc(c.stages, func(s cluster.AdmissionStage) bool { return s.Name == p.Name }):
			return nil, d.Wrong(at.Child("name").String(), fmt.Errorf("%s: %s %w", at.Child("name"), p.Name, ErrTwice))
		case (p.Path == "") == (p.Configuration == nil):
			return nil, d.Wrong(at.String(), fmt.Errorf("%s: one of path and configuration is required", at))
		}
		own := d.Within(at.Child("configuration").String(), nil)
		if p.Configuration != nil {
			own.JSON = p.Configuration.Raw
		} else if own, err = configfile.Open(d.Beside(p.Path)); err != nil {
			return nil, err
		}
		stage, err := configure(own)
		if err != nil {
			return nil, err
		}
		c.stages = append(c.stages, stage)
	}
	return c, nil
}

// Names returns the names of the plugins that can be configured, sorted.
func Names() []string {
	var all []string
	for name := range configurable() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Optional returns the stages that are off by default: cluster.OptionalAdmission, and plugins that do nothing without a configuration.
func Optional() []cluster.AdmissionStage {
	return append(cluster.OptionalAdmission(), undecided(), unmeasured(), unlimited())
}

// Apply returns the stages, with those in place of which the file says how they are to be. What the file says of others counts for
// nothing: it does not enable plugins.
func (c *Config) Apply(stages []cluster.AdmissionStage) []cluster.AdmissionStage {
	stages = slices.Clone(stages)
	if c == nil {
		return stages
	}
	for i, s := range stages {
		if at := slices.IndexFunc(c.stages, func(own cluster.AdmissionStage) bool { return own.Name == s.Name }); at >= 0 {
			stages[i] = c.stages[at]
		}
	}
	return stages
}
