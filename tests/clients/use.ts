// What test_openapi_ts.py compiles with the client that hey-api/openapi-ts generates, and runs against a service.
import { client } from './out/client.gen';
import { listModels, predict, v2Infer } from './out/sdk.gen';

declare const process: { argv: string[] };

async function main(): Promise<void> {
  client.setConfig({ baseUrl: process.argv[2] });
  const instances = [[58, 80, 'mild'], [36.5, 70, 'strong']];
  const benefits = [[0, -1], [-10, 5]];
  const decided = await predict({ body: { model: 'ward', instances, benefits, actions: ['wait', 'treat'] } });
  const missing = await predict({ body: { model: 'nothing', instances, benefits } });
  const listed = await listModels();
  const inputs = [
    { name: 'age', datatype: 'FP64' as const, shape: [1], data: [58] },
    { name: 'pulse', datatype: 'FP64' as const, shape: [1], data: [80] },
    { name: 'pain', datatype: 'BYTES' as const, shape: [1], data: ['mild'] },
  ];
  const inferred = await v2Infer({ path: { ref: 'ward' }, body: { inputs } });
  console.log(JSON.stringify({
    decisions: decided.data !== undefined && 'decisions' in decided.data ? decided.data.decisions : null,
    title: missing.error !== undefined && 'title' in missing.error ? missing.error.title : null,
    status: missing.response?.status,
    models: listed.data?.models.map((model) => model.name),
    shapes: inferred.data?.outputs.map((output) => output.shape),
  }));
}

void main();
