package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/scheduler/decisions"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

// scheduling says how pods are scheduled.
type scheduling struct {
	config, policy string
	file           *schedulerconfig.Config // what the file says
	kept           int                     // of how many pods the last decision is kept; usual is a default
}

const (
	decisionsPath = "/debug/scheduler/decisions" // where they are served
	usual         = -1                           // a default
	usualKept     = 1000                         // the default
	fewNodes      = 200                          // up to so many: a decision has a verdict on each
)

func (s *scheduling) define(f *flag.FlagSet) {
	f.StringVar(&s.config, "scheduler-config", "", "")
	f.StringVar(&s.policy, "policy-config-file", "", "")
	f.IntVar(&s.kept, "scheduler-decisions", usual, "")
}

// check reads the file. What it says of a process of its own would mean nothing here.
func (s *scheduling) check() (err error) {
	switch {
	case s.config != "" && s.policy != "":
		return errors.New("--scheduler-config and --policy-config-file exclude each other")
	case s.policy != "":
		if s.file, err = schedulerconfig.OpenPolicy(s.policy, schedulerconfig.Options{}); err != nil {
			return fmt.Errorf("--policy-config-file: %w", err)
		}
	case s.config != "":
		if s.file, err = schedulerconfig.Open(s.config, schedulerconfig.Options{}); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
		if e := s.file.Election; e.Explicit && e.Enabled {
			return fmt.Errorf("--scheduler-config: %s: leaderElection.leaderElect: true is not supported: the scheduler is part of this program, and alone", s.config)
		}
		if s.file.Client.Kubeconfig != "" {
			return fmt.Errorf("--scheduler-config: %s: clientConnection.kubeconfig: is not supported: the scheduler is part of this program, and needs no connection", s.config)
		}
	}
	return nil
}

// apply adds the scheduler to a cluster, and what shows its decisions.
func (s *scheduling) apply(o *cluster.Options, nodes int) {
	k := kubescheduler.Options{Allocator: structured.New()}
	if f := s.file; f != nil {
		k.Profile, k.More, k.InitialBackoff, k.MaxBackoff = f.Profiles[0], f.Profiles[1:], f.InitialBackoff, f.MaxBackoff
		k.Writes, k.BindTimeout, k.DeviceFindTimeout, k.DeviceBindTimeout = f.Writes, f.BindTimeout, f.DeviceFindTimeout, f.DeviceBindTimeout
	}
	kept := s.kept
	if kept == usual && nodes <= fewNodes {
		kept = usualKept
	}
	if kept > 0 {
		log := decisions.New(decisions.Options{Pods: kept})
		k.OnDecision = log.Record
		handler := log.Handler(decisionsPath)
		o.Server.Paths = map[string]http.Handler{decisionsPath: handler, decisionsPath + "/": handler}
	}
	o.Components = append(o.Components, kubescheduler.Component(k))
}
