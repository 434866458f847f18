// Package config builds the transformers of package encryption from the file that kube-apiserver takes as
// --encryption-provider-config: an EncryptionConfiguration of apiserver.config.k8s.io/v1, with the
// providers identity, aescbc, aesgcm, secretbox and, by the protocol v2, kms; and with the wildcards *.GROUP, *. and *.*.
//
// Files are read strictly: what upstream refuses is refused, in its words. Two things differ. Providers
// of KMS v1 are errors, since upstream has them turned off too. And errors never repeat
// what the file holds of keys; where upstream would, they say REDACTED.
//
// [Open] reads a file; [File.Run] reads it again when it changes, as upstream does with
// --encryption-provider-config-automatic-reload. New content that is wrong, or whose plugins are not
// well within ten seconds, is told to the log, and the old one stays. The file should be readable by its owner alone.
//
// Which resource a key of the store is of is for the caller to say, with [Locate]; see [Prefixes].
package config
