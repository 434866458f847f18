package main

import (
	"net"
	"strconv"

	"github.com/keelson-dev/keelson/node/kubeletconfig"
)

// configure reads the file of --config. It decides about what no flag was given for.
func (s *settings) configure(given func(flag string) bool) error {
	if s.file == "" {
		return nil
	}
	c, err := kubeletconfig.Open(s.file)
	if err != nil {
		return err
	}
	s.config = *c
	for flag, of := range map[string]struct {
		value *string
		says  string
	}{
		"runtime-endpoint": {&s.endpoint, c.Endpoint}, "pod-logs-dir": {&s.logs, c.Host.LogDir}, "cgroup-root": {&s.cgroups, c.Host.CgroupRoot},
		"static-pods": {&s.static, c.Host.StaticDir}, "cluster-domain": {&s.domain, c.Host.DNS.Domain}, "client-ca": {&s.clientCA, c.Server.ClientCA},
		"tls-cert": {&s.certificate, c.Server.Certificate}, "tls-key": {&s.key, c.Server.Key}, "listen": {&s.listen, listens(c.Server)},
	} {
		if !given(flag) && of.says != "" {
			*of.value = of.says
		}
	}
	if !given("cluster-dns") {
		for _, server := range c.Host.DNS.Servers {
			s.dns = append(s.dns, server.AsSlice())
		}
	}
	if !given("pod-cidr") {
		for _, cidr := range c.PodCIDRs {
			s.cidrs = append(s.cidrs, cidr.String())
		}
	}
	if !given("eviction-hard") {
		s.evict = nil
	}
	s.rotateClient = s.rotateClient || c.RotateCertificates && !given("rotate-certificates")
	s.rotateServing = s.rotateServing || c.Server.Bootstrap && !given("rotate-server-certificates")
	return nil
}

// listens is the flag --listen for a server; empty for the node's address and the usual port.
func listens(s kubeletconfig.Server) string {
	switch {
	case s.Disabled:
		return "none"
	case s.Address.IsValid():
		return net.JoinHostPort(s.Address.String(), strconv.Itoa(int(s.Port)))
	case s.Port != 10250:
		return net.JoinHostPort("", strconv.Itoa(int(s.Port)))
	}
	return ""
}
