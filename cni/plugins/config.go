package plugins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/keelson-dev/keelson/cni"
)

// Config is a valid configuration of a network: plugins that run in order.
type Config struct {
	// File is the file it was read from.
	File string
	// Name is the network's name, Version the CNI version that its plugins use.
	Name, Version string
	Plugins       []Plugin

	list *libcni.NetworkConfigList
}

// Plugin is an entry of a configuration.
type Plugin struct {
	// Type is the name of the executable, IPAM that of its address plugin, which may be empty.
	Type, IPAM string
	// Capabilities are the runtime settings that it accepts, in lexical order.
	Capabilities []string
}

// Can reports whether a plugin declares the capability.
func (c Config) Can(capability string) bool {
	return slices.ContainsFunc(c.Plugins, func(p Plugin) bool { return slices.Contains(p.Capabilities, capability) })
}

// Parse reads a configuration: a list of plugins or a single one. Errors are *cni.ConfigError and name the file as
// given. A list that keeps its plugins in other files has none.
func Parse(file string, data []byte) (Config, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return Config{}, &cni.ConfigError{File: file, Field: fieldOf(err), Reason: describe(data, err)}
	}
	if _, single := top["type"]; single && top["plugins"] == nil {
		var err error
		if data, err = listOf(top, data); err != nil {
			return Config{}, &cni.ConfigError{File: file, Reason: err.Error()}
		}
	}
	if err := checkPlugins(file, top["plugins"]); err != nil {
		return Config{}, err
	}
	list, err := libcni.NetworkConfFromBytes(data)
	if err != nil {
		return Config{}, &cni.ConfigError{File: file, Field: fieldOf(err), Reason: strings.TrimPrefix(err.Error(), "error parsing configuration list: ")}
	}
	return configOf(file, list)
}

// listOf converts a single plugin's configuration to a list.
func listOf(top map[string]json.RawMessage, data []byte) ([]byte, error) {
	list := map[string]any{"plugins": []json.RawMessage{data}}
	for _, key := range []string{"name", "cniVersion"} {
		if value, ok := top[key]; ok {
			list[key] = value
		}
	}
	return json.Marshal(list)
}

// checkPlugins checks what libcni would refuse without naming the place.
func checkPlugins(file string, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var plugins []struct {
		Type         *string         `json:"type"`
		Capabilities map[string]bool `json:"capabilities"`
		IPAM         struct {
			Type string `json:"type"`
		} `json:"ipam"`
	}
	if err := json.Unmarshal(raw, &plugins); err != nil {
		field := "plugins"
		if sub := fieldOf(err); sub != "" {
			field += "[]." + sub
		}
		return &cni.ConfigError{File: file, Field: field, Reason: err.Error()}
	}
	for i, p := range plugins {
		if p.Type == nil || *p.Type == "" {
			return &cni.ConfigError{File: file, Field: fmt.Sprintf("plugins[%d].type", i), Reason: "names no plugin"}
		}
	}
	return nil
}

func configOf(file string, list *libcni.NetworkConfigList) (Config, error) {
	if list.CNIVersion == "" {
		list.CNIVersion = "0.1.0" // the meaning of a missing version, by the specification
	}
	if !slices.Contains(version.All.SupportedVersions(), list.CNIVersion) {
		return Config{}, &cni.ConfigError{File: file, Field: "cniVersion", Reason: fmt.Sprintf("%q is not one of %s", list.CNIVersion, strings.Join(version.All.SupportedVersions(), ", "))}
	}
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return Config{}, &cni.ConfigError{File: file, Field: "name", Reason: err.Error()}
	}
	c := Config{File: file, Name: list.Name, Version: list.CNIVersion, list: list}
	for i, p := range list.Plugins {
		plugin := Plugin{Type: p.Network.Type, IPAM: p.Network.IPAM.Type}
		for field, name := range map[string]string{"type": plugin.Type, "ipam.type": plugin.IPAM} {
			if strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
				return Config{}, &cni.ConfigError{File: file, Field: fmt.Sprintf("plugins[%d].%s", i, field), Reason: fmt.Sprintf("%q is no name of an executable", name)}
			}
		}
		for capability, declared := range p.Network.Capabilities {
			if declared {
				plugin.Capabilities = append(plugin.Capabilities, capability)
			}
		}
		slices.Sort(plugin.Capabilities)
		c.Plugins = append(c.Plugins, plugin)
	}
	return c, nil
}

// Bytes returns the whole configuration as one list, whatever files it was read from.
func (c Config) Bytes() ([]byte, error) {
	list := struct {
		Name         string            `json:"name"`
		CNIVersion   string            `json:"cniVersion"`
		DisableCheck bool              `json:"disableCheck,omitempty"`
		DisableGC    bool              `json:"disableGC,omitempty"`
		Plugins      []json.RawMessage `json:"plugins"`
	}{Name: c.Name, CNIVersion: c.Version, DisableCheck: c.list.DisableCheck, DisableGC: c.list.DisableGC}
	for _, p := range c.list.Plugins {
		list.Plugins = append(list.Plugins, p.Bytes)
	}
	return json.Marshal(list)
}

func fieldOf(err error) string {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return mismatch.Field
	}
	return ""
}

// describe adds the line to a syntax error.
func describe(data []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err.Error()
	}
	at := min(max(int(syntax.Offset), 0), len(data))
	return fmt.Sprintf("no JSON: line %d: %v", 1+bytes.Count(data[:at], []byte("\n")), err)
}
